#include "launcher/cleanup/cleanup_execution.h"

#include <chrono>
#include <utility>

#include "common/text.h"
#include "common/units.h"
#include "launcher/cleanup/disk_usage.h"
#include "launcher/runs/deleted_runs.h"

namespace dlrun {
namespace {

constexpr const char* kDiagnosticFiles =
    "diagnostic files (logs, traces, profiles and stacks of hung ranks)";

std::string runs_text(std::size_t count) {
  return fmt::format("{} run{}", count, count == 1 ? "" : "s");
}

std::string size_text(const TreeSize& size) {
  return fmt::format("{} file{}, {}", size.files, size.files == 1 ? "" : "s",
                     bytes_text(static_cast<double>(size.bytes)));
}

/// Returns what the plan deletes: "3 runs", or "the diagnostic files (logs, traces, profiles and
/// stacks of hung ranks) of 3 runs".
std::string planned_text(const CleanupPlan& plan) {
  return (plan.parts == RunParts::kAll ? "" : fmt::format("the {} of ", kDiagnosticFiles)) +
         runs_text(plan.deletions.size());
}

std::string deleted_text(const PlannedDeletion& planned, RunParts parts, const TreeSize& freed) {
  if (planned.is_gone && freed.files == 0)
    return planned.run.id + ": was gone, and is no longer listed";
  return fmt::format("deleted {}{} ({})", parts == RunParts::kAll ? "" : "the diagnostic files of ",
                     planned.run.id, size_text(freed));
}

/// Returns true if the error says that another process uses the run (kUsage, kRefused), or that the
/// run is already deleted (kNotFound).
bool says_busy_or_gone(Errc code) {
  return code == Errc::kUsage || code == Errc::kNotFound || code == Errc::kRefused;
}

Error undeleted_files_error(const std::string& id, RunParts parts, const TreeDeletion& done) {
  return {Errc::kIo, fmt::format("{}: {} file{} could not be deleted: {}. The next {} tries again",
                                 id, done.undeleted_count, done.undeleted_count == 1 ? "" : "s",
                                 done.first_undeleted,
                                 parts == RunParts::kAll
                                     ? "`dlrun rm` or `dlrun prune` of a run in the same folder"
                                     : "`dlrun prune --keep-checkpoints` of this run")};
}

}  // namespace

TableRows cleanup_rows(const CleanupPlan& plan) {
  const bool has_checkpoints = plan.parts == RunParts::kAll;  // kDiagnostics deletes none
  TableRows rows = {{"RUN", "STATE", "FILES", "SIZE"}};
  if (has_checkpoints) rows.front().insert(rows.front().end() - 1, "CHECKPOINTS");
  for (const PlannedDeletion& planned : plan.deletions) {
    const TreeSize& size = planned.examined.size;
    auto& row = rows.emplace_back();
    row = {planned.run.id, planned.is_gone ? "gone" : std::string(word(planned.state)),
           std::to_string(size.files)};
    if (has_checkpoints) row.push_back(checkpoints_text(size));
    row.push_back(bytes_text(static_cast<double>(size.bytes)));
  }
  return rows;
}

std::string cleanup_question(const CleanupPlan& plan) {
  return fmt::format("Delete {} ({})?", planned_text(plan), size_text(plan.size()));
}

std::string nothing_to_prune_text(const CleanupPlan& plan, const std::string& age) {
  const std::size_t count = plan.runs_without_diagnostics;
  if (count == 0) return fmt::format("no run that ended more than {} ago can be deleted", age);
  return fmt::format(
      "{} that ended more than {} ago {} no {} left; without --keep-checkpoints, prune deletes "
      "whole runs",
      runs_text(count), age, count == 1 ? "has" : "have", kDiagnosticFiles);
}

std::string dry_run_text(const CleanupPlan& plan) {
  return fmt::format("would delete {} ({}); nothing was deleted (--dry-run)", planned_text(plan),
                     size_text(plan.size()));
}

CleanupResult clean_up(const Env& env, RunInspector& inspector, const CleanupPlan& plan,
                       const CleanupListener& listener) {
  CleanupResult result;
  const auto report_failure = [&](const Error& error) {
    listener.error(error);
    if (!result.failure) result.failure = error.code;
  };
  for (const PlannedDeletion& planned : plan.deletions) {
    const auto done = delete_planned(env, inspector, planned, plan.parts);
    result.runs.push_back(planned_deletion_json(planned));
    result.runs.back()["deleted"] = done && done->undeleted_count == 0;
    if (!done && plan.tolerates_busy_runs && says_busy_or_gone(done.error().code)) {
      listener.note(done.error().message);
      continue;
    }
    if (!done) {
      report_failure(done.error());
      continue;
    }
    result.freed += done->freed;
    if (done->undeleted_count > 0) {
      report_failure(undeleted_files_error(planned.run.id, plan.parts, *done));
    } else {
      listener.result(deleted_text(planned, plan.parts, done->freed));
    }
  }
  const TreeDeletion earlier = finish_interrupted_deletions(plan);
  if (earlier.freed.files > 0)
    listener.note(fmt::format("{} an earlier, interrupted deletion ({})",
                              earlier.undeleted_count == 0 ? "finished" : "continued",
                              size_text(earlier.freed)));
  if (earlier.undeleted_count > 0)
    listener.note(fmt::format("{} file{} of earlier deletions could not be deleted: {}",
                              earlier.undeleted_count, earlier.undeleted_count == 1 ? "" : "s",
                              earlier.first_undeleted));
  result.freed += earlier.freed;
  if (const auto index = RunIndex::of_user(env))
    DeletedRuns::beside(*index).forget_old(std::chrono::system_clock::now());
  if (plan.deletions.size() > 1) listener.result("freed " + size_text(result.freed));
  return result;
}

CleanupResult dry_cleanup(const CleanupPlan& plan) {
  CleanupResult result;
  for (const PlannedDeletion& planned : plan.deletions) {
    result.runs.push_back(planned_deletion_json(planned));
    result.runs.back()["deleted"] = false;
  }
  return result;
}

}  // namespace dlrun
