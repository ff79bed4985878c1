#include "launcher/view/status_lines.h"

#include <filesystem>

#include "common/number_ranges.h"
#include "common/text.h"
#include "launcher/runs/last_words.h"
#include "launcher/runs/log_file.h"
#include "launcher/view/autopsy_text.h"
#include "launcher/view/rehearsal_text.h"
#include "launcher/view/run_text.h"

namespace dlrun {
namespace {

/// Returns the jobs of the run's chain (retry.chain): "job 2 of 3: 41, 42, 43"; empty: no chain.
std::string chain_text(const RunStatus& status) {
  const auto jobs = chain_jobs_of(status.facts);
  if (jobs.empty()) return {};
  std::vector<std::string> ids;
  std::size_t number_of_current = 0;
  for (const JobId& job : jobs) {
    ids.push_back(job.id);
    if (job.id == status.job.id) number_of_current = ids.size();
  }
  return fmt::format("job {} of {}: {}", number_of_current, jobs.size(), join(ids, ", "));
}

/// Returns true if the run ended at its time limit and its spec probably does not let it continue
/// after that limit: the record has neither a warning before the limit (USR1) nor a restart.
bool ended_at_limit_without_restart(const RunStatus& status) {
  const RunRecord& record = status.facts.record;
  return status.state == RunState::kTimeout && !status.sweep && record.has_events &&
         !record.was_warned && record.restarts.empty();
}

/// Returns true if the file or folder certainly does not exist.
bool is_absent(const std::filesystem::path& path) {
  std::error_code error;
  return !std::filesystem::exists(path, error) && !error;
}

void add_reasons(LabelledLines& lines, const IndexEntry& run, const RunStatus& status) {
  const RunFacts& facts = status.facts;
  add_line(lines, "chain", chain_text(status));
  if (facts.foreign && !status.may_be_outdated)
    add_line(lines, "", describe_foreign_run(*facts.foreign));
  add_line(lines, "", status.detail);
  if (ended_at_limit_without_restart(status))
    add_line(lines, "",
             "set a longer resources.time, or let the run continue after its time limit with "
             "checkpoint.signal_before and retry (`dlrun explain retry`)");
  if (status.sweep && status.sweep->not_submitted > 0 && !facts.foreign)
    add_line(lines, "",
             fmt::format("`dlrun resubmit {}` submits the points that were not submitted", run.id));
}

void add_progress(LabelledLines& lines, const RunFacts& facts) {
  const RunRecord& record = facts.record;
  const std::string nodes = nodes_of(facts);
  if (record.has_events || !nodes.empty()) {
    std::string text = nodes;
    if (record.ranks > 0)
      text += fmt::format("{}{} rank{}", text.empty() ? "" : ", ", record.ranks,
                          record.ranks == 1 ? "" : "s");
    add_line(lines, "nodes", text);
  }
  add_lines(lines, "component", component_state_lines(record));
  add_line(lines, "attempt", attempt_text(record));
  if (record.progress && record.result.empty()) {
    const std::string since = age(record.progress->time);
    add_line(lines, "progress",
             progress_text(*record.progress) +
                 (record.ended || since.empty() ? "" : fmt::format("  ({} ago)", since)));
  }
  add_line(lines, "result", result_text(record.result));
}

void add_predictions(LabelledLines& lines, const IndexEntry& run) {
  const auto texts = predictions_for(run.path);
  if (!texts) return;
  add_line(lines, "rehearsal", texts->rehearsal);
  add_line(lines, "memory", texts->memory);
  add_line(lines, "GPU", texts->gpu);
  add_line(lines, "time", texts->time);
}

/// Returns the failure without its error text if status.detail has this text already.
RankFailure failure_beside_detail(RankFailure failed, const RunStatus& status) {
  // The detail of a hang also shows the failed rank, but may describe the failure in other words.
  const bool has_error_text = status.detail_shows_failed_rank &&
                              status.facts.record.attempt_end_reason == EndReason::kRankFailed;
  if (has_error_text) failed.error.clear();
  return failed;
}

void add_failure(LabelledLines& lines, const IndexEntry& run, const RunStatus& status) {
  const RunRecord& record = status.facts.record;
  if (const RankFailure* const failed = failure_behind_end(status))
    lines.push_back({"failed", describe(failure_beside_detail(*failed, status)), /*is_bad=*/true});
  add_lines(lines, "output", last_words(run.path, status));
  if (record.autopsy) {
    add_lines(lines, "autopsy", autopsy_lines(*record.autopsy));
    const auto stacks = run.path / "autopsy" / fmt::format("attempt-{}", record.autopsy->attempt);
    if (!is_over(status) || !is_absent(stacks)) add_line(lines, "stacks", stacks.string());
  }
  if (!record.missing_ranks.empty()) {
    add_line(lines, "missing",
             fmt::format("{} {}", record.missing_ranks.size() == 1 ? "rank" : "ranks",
                         number_ranges(record.missing_ranks)));
  }
}

void add_warnings(LabelledLines& lines, const RunRecord& record) {
  for (const auto& warning : record.warnings) {
    add_line(lines, "warning",
             warning.message + (warning.host.empty() ? "" : fmt::format(" ({})", warning.host)));
  }
  if (record.damaged_lines > 0)
    add_line(
        lines, "warning",
        fmt::format("damaged lines in events.jsonl, which were skipped: {}", record.damaged_lines));
  if (record.left_out_bytes > 0)
    add_line(
        lines, "warning",
        fmt::format("events.jsonl is too large to be read whole: {} MiB in its middle were skipped",
                    record.left_out_bytes >> 20U));
}

void add_paths(LabelledLines& lines, const IndexEntry& run, const RunStatus& status) {
  const RunRecord& record = status.facts.record;
  if (status.sweep) add_line(lines, "points", fmt::format("dlrun sweep {}", run.id));
  // The logs of an ended run may be deleted (`dlrun prune`). A job that has not ended may still
  // create its logs.
  const auto add_path = [&](const char* label, const std::filesystem::path& path) {
    if (!is_over(status) || !is_absent(path)) add_line(lines, label, path.string());
  };
  // Lead creates the log of a local run. If the setup fails, lead does not start, and there is no
  // log.
  if (const auto log = job_log(run.path, status.facts);
      log && (status.job.cluster != kLocalCluster || !is_absent(*log)))
    add_path("log", *log);
  if (const auto errors = status.sweep ? std::nullopt : error_log(run.path, status.facts))
    add_path("error log", *errors);
  if (record.has_events) add_path("rank logs", rank_log(run.path, record.attempt, 0).parent_path());
  add_line(lines, "directory", run.path.string());
}

}  // namespace

LabelledLines status_lines(const IndexEntry& run, const RunStatus& status,
                           const std::vector<std::string>& waits) {
  LabelledLines lines;
  add_reasons(lines, run, status);
  add_lines(lines, is_inactive(status.state) ? "waited" : "waits", waits);
  add_progress(lines, status.facts);
  add_predictions(lines, run);
  add_failure(lines, run, status);
  add_warnings(lines, status.facts.record);
  add_paths(lines, run, status);
  return lines;
}

}  // namespace dlrun
