#include "runtime/agent/idle_gpus.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/hostlist.h"
#include "common/text.h"

namespace dlrun::agent {
namespace {

constexpr double kBusyPercent = 1;  ///< least utilisation of a busy GPU
/// A GPU about which nothing was reported for this long does not count as idle.
constexpr std::chrono::seconds kLargestReportAge{120};

std::string time_text(std::chrono::seconds time) {
  return time.count() % 60 == 0 ? fmt::format("{} min", time.count() / 60)
                                : fmt::format("{} s", time.count());
}

}  // namespace

void IdleGpus::add_beat(int rank, const std::string& host, const to_lead::Beat& beat,
                        Clock::time_point now) {
  if (!limit_ || !began_) return;
  for (const auto* gpus : {&beat.gpus, &beat.node_gpus}) {
    if (!*gpus) continue;
    for (std::size_t i = 0; i < (*gpus)->size(); ++i) {
      const auto& percent = (**gpus)[i].percent;
      if (!percent) continue;
      auto& gpu = nodes_[host].try_emplace({rank, i}, Gpu{.busy_at = *began_}).first->second;
      gpu.heard_at = now;
      if (*percent < kBusyPercent) continue;
      gpu = {.busy_at = now, .heard_at = now, .has_worked = true};
    }
  }
}

void IdleGpus::on_lead_suspended(Clock::duration time) {
  for (auto& [host, gpus] : nodes_) {
    for (auto& [key, gpu] : gpus) gpu.busy_at += time;
  }
}

std::optional<std::string> IdleGpus::take_message(Clock::time_point now) {
  if (!limit_ || !began_ || now < *began_ + *limit_) return std::nullopt;
  std::vector<std::string> unused;  // nodes on which no GPU has ever been busy
  std::vector<std::string> clauses;
  for (auto& [host, gpus] : nodes_) {
    std::size_t idle_count = 0;
    bool is_news = false;
    bool has_worked = false;
    for (auto& [key, gpu] : gpus) {
      has_worked = has_worked || gpu.has_worked;
      if (now < gpu.busy_at + *limit_ || now > gpu.heard_at + kLargestReportAge) continue;
      ++idle_count;
      is_news = is_news || !gpu.is_announced;
      gpu.is_announced = true;
    }
    if (!is_news) continue;
    if (idle_count == gpus.size() && !has_worked) {
      unused.push_back(host);
    } else {
      clauses.push_back(fmt::format("{} of the {} GPUs of {} {} not worked for {}", idle_count,
                                    gpus.size(), host, idle_count == 1 ? "has" : "have",
                                    time_text(*limit_)));
    }
  }
  if (!unused.empty())
    clauses.insert(clauses.begin(),
                   fmt::format("{} {} never used {} GPUs", unused.size() == 1 ? "node" : "nodes",
                               compress_hostlist(unused), unused.size() == 1 ? "its" : "their"));
  if (clauses.empty()) return std::nullopt;
  return join(clauses, "; ") + " (health.idle_gpu_after)";
}

}  // namespace dlrun::agent
