// Whether an attempt's nodes and programs are well: checks before the programs start, what hangs, what is not heard of.

#include <algorithm>

#include "common/text.h"
#include "runtime/agent/attempt.h"

namespace dlrun::agent {
namespace {

constexpr int kHangCode = 79;
constexpr int kUnfitCode = 80;

}  // namespace

void Attempt::judge_fitness(Clock::time_point now) {
  const int nodes = ranks_.begin()->second.hello.world.nnodes;
  const auto verdict = fitness_.verdict(nodes, now);
  const auto& first = fitness_.first();
  if (verdict == Fitness::Verdict::kEverywhere) {
    end_.lost_nodes.clear();
    end_for(
        "not_fit", kUnfitCode,
        fmt::format("none of the {} nodes is fit for the job, all for the same reason: {}; that is no node's fault, "
                    "but the spec's or the site's (health.preflight)",
                    nodes, printable(first.words)),
        now);
  } else if (verdict == Fitness::Verdict::kNodes) {
    fail_rank(first.rank, {kUnfitCode, 0, fmt::format("{} is not fit for the job: {}", first.host, first.words)}, true,
              now);
  }
}

void Attempt::lose_node(const std::string& host) {
  auto& lost = end_.lost_nodes;
  if (std::find(lost.begin(), lost.end(), host) == lost.end()) lost.push_back(host);
}

void Attempt::on_checked(int rank, Clock::time_point now) {
  if (phase_ != Phase::kRunning || !ranks_.contains(rank) || ++checked_ != size_) return;
  outlet_.record("checked", {{"ranks", size_}, {"seconds", seconds_since_start(now)}});
  hang_watch_.on_start(now);
}

void Attempt::on_check_failed(int rank, std::string_view words, bool is_own, Clock::time_point now) {
  const auto found = ranks_.find(rank);
  if (phase_ != Phase::kRunning || found == ranks_.end()) return;
  if (is_own) {
    if (!fitness_.has_complaint()) fitness_ = Fitness();  // of those that said hello all were fit until now
    lose_node(found->second.hello.host);
    fitness_.note(rank, found->second.hello.host, found->second.hello.world.local_size, words, now);
    return judge_fitness(now);
  }
  int first = -1;
  for (const auto& [number, member] : ranks_) {
    if (arrived_.contains(number)) continue;
    if (first < 0) first = number;
    lose_node(member.hello.host);
  }
  if (first >= 0) {
    return fail_rank(first,
                     {kUnfitCode, 0,
                      fmt::format("{} is not fit for the job: its rank did not come to the check of collectives ({})",
                                  host_of(first), words)},
                     true, now);
  }
  end_for("not_fit", kUnfitCode,
          fmt::format("collectives do not work among the ranks, though all of them came: {} (health.preflight)",
                      printable(words)),
          now);
}

void Attempt::on_heard(int rank, Clock::time_point now) {
  if (const auto found = ranks_.find(rank); found != ranks_.end()) found->second.heard = now;
}

void Attempt::on_asleep(Clock::duration time) {
  hang_watch_.on_asleep(time);
  for (auto& [number, rank] : ranks_) rank.heard += time;
}

void Attempt::on_stopped(int rank, std::chrono::seconds stopped, Clock::time_point now) {
  const auto found = ranks_.find(rank);
  if (phase_ != Phase::kRunning || found == ranks_.end() || found->second.end) return;
  stopped_ = {rank, stopped, now};
  if (stopped >= hang_watch_.stopped_limit()) end_for_stopped(now);
}

void Attempt::end_for_stopped(Clock::time_point now) {
  const FailedRank failed{stopped_.rank,
                          host_of(stopped_.rank),
                          ranks_.at(stopped_.rank).hello.pid,
                          {kHangCode, 0, fmt::format("its process has been stopped for {} s", stopped_.time.count())}};
  end_.first_failed = failed;
  record_failure(failed);
  end_for("hang", kHangCode, sentence(), now);
}

/// Nobody makes progress. A node that has gone silent, while others are heard of, is why.
void Attempt::end_for_hang(std::string sentence, Clock::time_point now) {
  struct Node {
    std::vector<int> ranks;
    bool is_heard = false;
    Clock::time_point heard{};
  };
  std::map<std::string, Node> nodes;
  bool is_any_late = false;
  bool is_any_heard = false;
  for (const auto& [number, rank] : ranks_) {
    if (rank.end || !rank.is_connected) continue;
    auto& node = nodes[rank.hello.host];
    node.ranks.push_back(number);
    node.heard = std::max(node.heard, rank.heard);
    node.is_heard = node.is_heard || now < rank.heard + kMute;
    is_any_heard = is_any_heard || node.is_heard;
    is_any_late = is_any_late || (now >= rank.heard + kLate && now < rank.heard + kMute);
  }
  if (!hang_since_) hang_since_ = now;
  hang_looked_at_ = now;
  if (is_any_late && now < *hang_since_ + (kMute - kLate)) return;
  std::vector<std::string> silent;
  for (const auto& [host, node] : nodes) {
    if (!is_any_heard || node.is_heard) continue;
    silent.push_back(host);
    lost_.insert(node.ranks.begin(), node.ranks.end());
    sentence += fmt::format("; nothing is heard of {} for {} s, it is taken for lost", host,
                            std::chrono::duration_cast<std::chrono::seconds>(now - node.heard).count());
  }
  if (!silent.empty()) {
    const int first = *lost_.begin();
    const auto& hello = ranks_.at(first).hello;
    end_.first_failed = {first, hello.host, hello.pid, {kHangCode, 0, "its node is silent"}};
    record_failure(*end_.first_failed);
    end_.lost_nodes = std::move(silent);
  }
  end_for("hang", kHangCode, std::move(sentence), now);
}

}  // namespace dlrun::agent
