#include "launcher/view/run_text.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <vector>

#include "common/json_read.h"
#include "common/text.h"
#include "common/units.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/sweep_record.h"

namespace dlrun {
namespace {

/// Returns "epoch 2/4", or "epoch 2" if the total is unknown.
std::string of_total(std::string_view what, std::int64_t value,
                     const std::optional<std::int64_t>& total) {
  return total ? fmt::format("{} {}/{}", what, value, *total) : fmt::format("{} {}", what, value);
}

/// Returns as many whole entries of a result as fit into kSummaryColumns, and at least one. The
/// entries by which runs are compared come first. Leaves out the hash of the parameters, which
/// `status` shows.
std::string short_result(const std::string& result) {
  auto json = json_read::object_of(result);
  if (!json) return {};
  std::string text;
  const auto add = [&](const std::string& name, const nlohmann::ordered_json& value) {
    const std::string part = result_text(json_read::dump(nlohmann::ordered_json{{name, value}}));
    if (text.empty()) {
      text = part;
    } else if (text.size() + 2 + part.size() <= kSummaryColumns) {
      text += ", " + part;
    }
  };
  for (const std::string_view name : kComparedResults) {
    if (const auto found = json->find(name); found != json->end()) add(std::string(name), *found);
  }
  for (const auto& [name, value] : json->items()) {
    const bool is_compared =
        std::find(kComparedResults.begin(), kComparedResults.end(), name) != kComparedResults.end();
    if (!is_compared && name != "parameters") add(name, value);
  }
  return text;
}

/// Returns summary_text() without the owner.
std::string main_text(const RunStatus& status) {
  if (status.sweep) return describe(*status.sweep);
  const RunRecord& record = status.facts.record;
  if (status.state == RunState::kCompleted) {
    if (auto result = short_result(record.result); !result.empty()) return result;
  } else if (is_inactive(status.state)) {
    return end_cause_text(status);
  }
  if (is_ending_after_cancel(status)) return printable(status.detail);
  const std::string attempt =
      record.restarts.empty() ? "" : fmt::format("attempt {}  ", record.attempt);
  return attempt + (record.progress ? progress_text(*record.progress) : "");
}

}  // namespace

std::string nodes_of(const RunFacts& facts) {
  if (!facts.record.hosts.empty()) return facts.record.hosts;
  if (facts.report && !facts.report->nodes.empty()) return facts.report->nodes;
  return {};
}

std::string attempt_text(const RunRecord& record) {
  if (record.attempt == 0 && record.restarts.empty()) return {};
  std::vector<std::string> causes;
  for (const auto& restart : record.restarts) causes.push_back(printable(restart.cause));
  if (causes.empty()) return std::to_string(record.attempt);
  const Restart& last = record.restarts.back();
  // Between two attempts, the record still has the number of the attempt that has ended.
  const bool is_between = last.attempt == record.attempt && !record.ended;
  const std::string number =
      is_between ? fmt::format("{} is next", record.attempt + 1) : std::to_string(record.attempt);
  const std::string text = fmt::format("{}, after {}", number, join(causes, ", "));
  if (record.ended) return text;
  if (last.restarts_left == 0) return text + "; no restart left";
  return fmt::format("{}; at most {} restart{} left", text, last.restarts_left,
                     last.restarts_left == 1 ? "" : "s");
}

std::vector<std::string> component_state_lines(const RunRecord& record) {
  std::vector<std::string> lines;
  for (const auto& one : record.components) {
    std::string line = fmt::format("{} ({}): {}", one.name, one.role.text(), word(one.state));
    if (one.state == ComponentState::kFailed && one.code)
      line += fmt::format(" with code {}", *one.code);
    if (!one.hosts.empty()) line += " on " + one.hosts;
    if (one.restarts > 0)
      line += fmt::format(", started again {} time{}", one.restarts, one.restarts == 1 ? "" : "s");
    lines.push_back(printable(line));
  }
  return lines;
}

std::string progress_text(const Progress& progress) {
  std::vector<std::string> parts;
  if (progress.epoch) parts.push_back(of_total("epoch", *progress.epoch, progress.epochs));
  if (progress.step) parts.push_back(of_total("step", *progress.step, progress.steps));
  if (progress.loss) parts.push_back(fmt::format("loss {:.4g}", *progress.loss));
  if (progress.accuracy) parts.push_back(fmt::format("accuracy {:.4g}", *progress.accuracy));
  if (progress.samples_per_s)
    parts.push_back(fmt::format("{} samples/s", coarse_rate_text(*progress.samples_per_s)));
  return join(parts, ", ");
}

std::string result_text(const std::string& result) {
  const auto json = json_read::object_of(result);
  if (!json) return {};
  std::vector<std::string> parts;
  for (const auto& [key, value] : json->items()) {
    std::string shown =
        value.is_string() ? printable(value.get<std::string>()) : json_read::dump(value);
    if (value.is_number_float()) shown = fmt::format("{:.6g}", value.get<double>());
    parts.push_back(fmt::format("{} {}", key, shown));
  }
  return join(parts, ", ");
}

std::string job_text(const JobId& job) {
  if (job.cluster != kLocalCluster) return "job " + job.id;
  const auto local = parse_local_job(job.id);
  return local ? fmt::format("on {}, process {}", local->host, local->pid)
               : std::string("on this machine");
}

std::string end_text(const IndexEntry& run, const RunStatus& status) {
  std::string text = fmt::format("{}: {}", printable(run.id), word(status.state));
  if (!status.detail.empty()) text += ": " + printable(status.detail);
  const RankFailure* const failed = failure_behind_end(status);
  if (failed != nullptr && status.state != RunState::kCompleted && !status.detail_shows_failed_rank)
    text += "; first to fail: " + printable(describe(*failed));
  const bool is_failure = status.state == RunState::kFailed || status.state == RunState::kTimeout;
  if (is_failure && !status.sweep)
    text += fmt::format("; `dlrun status {}` shows more", printable(run.id));
  return text;
}

std::string end_cause_text(const RunStatus& status) {
  const RunRecord& record = status.facts.record;
  const bool detail_has_cause = record.ended && record.container_failed;
  const RankFailure* const failed = detail_has_cause ? nullptr : failure_behind_end(status);
  return printable(failed != nullptr ? describe(*failed) : status.detail);
}

std::string summary_text(const RunStatus& status) {
  std::string text = main_text(status);
  if (const auto& owner = status.facts.foreign) {
    text = status.may_be_outdated && !status.sweep
               ? describe_foreign_run(*owner)
               : fmt::format("of user {}: {}", printable(owner->name), text);
  }
  return text;
}

std::string age(const std::string& utc) {
  std::tm parts{};
  if (::strptime(utc.c_str(), "%Y-%m-%dT%H:%M:%S", &parts) == nullptr) return {};
  const auto then = std::chrono::system_clock::from_time_t(::timegm(&parts));
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now() - then)
          .count();
  return age_text(seconds);
}

}  // namespace dlrun
