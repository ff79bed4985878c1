// assess() decides the state of a run from facts that were read before. No function here reads a
// file or asks Slurm.
#include "launcher/runs/status.h"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "common/text.h"
#include "launcher/executors/foreground.h"
#include "launcher/executors/slurm_parse.h"
#include "launcher/runs/pending_reason.h"

namespace dlrun {
namespace {

constexpr const char* kCancelledByUser = "it was cancelled with `dlrun cancel`";

/// Returns a text about the dependency that can no longer be fulfilled: "afterok:12, which can no
/// longer be fulfilled"; empty if Slurm reports no such dependency.
std::string failed_dependency_text(const JobReport& report) {
  if (report.reason != kNeverSatisfied) return {};
  const auto& failed = report.failed_dependencies;
  return fmt::format("{}, which can no longer be fulfilled",
                     failed.empty() ? "a dependency" : printable(join(failed, ", ")));
}

/// Explains the end state that Slurm reports for the job. has_cancel_mark: `dlrun cancel` has
/// cancelled the run.
std::string explain_end(const JobReport& report, bool has_cancel_mark) {
  struct Row {
    std::string_view state, text;
  };
  constexpr std::array<Row, 8> kRows = {
      {{"TIMEOUT", "it reached its time limit"},
       {"OUT_OF_MEMORY", "it used more memory than it had requested"},
       {"NODE_FAIL", "a node failed"},
       {"PREEMPTED", "a job with a higher priority took its nodes"},
       {"BOOT_FAIL", "a node did not boot"},
       {"DEADLINE", "it could not end before its deadline"},
       {"FAILED", "its script ended with an error"},
       {"CANCELLED", "it was cancelled"}}};
  std::string text = report.state;
  for (const auto& row : kRows) {
    if (row.state == report.state) text = fmt::format("{}: {}", report.state, row.text);
  }
  if (has_cancel_mark && report.state == "CANCELLED") text = kCancelledByUser;
  if (const auto dependency = failed_dependency_text(report);
      !dependency.empty() && report.state == "CANCELLED")
    text = fmt::format("{}: it waited for {}", report.state, dependency);
  if (report.exit_code && *report.exit_code != 0)
    text += fmt::format(" (code {})", *report.exit_code);
  if (report.signal != 0) text += fmt::format(" (signal {})", report.signal);
  return text;
}

RunState end_state(const RunRecord& record) {
  switch (record.end_state.value().value_or(EndState::kFailed)) {
    case EndState::kCompleted:
      return RunState::kCompleted;
    case EndState::kCancelled:
      return RunState::kCancelled;
    case EndState::kTimeout:
      return RunState::kTimeout;
    case EndState::kFailed:
      return RunState::kFailed;
  }
  return RunState::kFailed;
}

/// Returns the checks that run a collective if are_collective is true, otherwise the other checks:
/// "nccl" or "gpu" for the list "gpu,nccl" (health.preflight).
std::string select_checks(std::string_view checks, bool are_collective) {
  std::vector<std::string> selected;
  for (const std::string_view check : split(checks, ',')) {
    const bool is_collective = check == "nccl" || check == "rccl" || check == "gloo";
    if (is_collective == are_collective) selected.emplace_back(check);
  }
  return join(selected, ",");
}

/// Returns a text about the components of a running job that are not ready yet. Leaves out
/// components that have ended, were stopped or have failed.
std::string components_detail(const RunRecord& record) {
  std::vector<std::string> words;
  for (const auto& one : record.components) {
    const bool will_become_ready =
        one.state == ComponentState::kWaiting || one.state == ComponentState::kStarting ||
        one.state == ComponentState::kJoined || one.state == ComponentState::kRestarting;
    if (will_become_ready)
      words.push_back(fmt::format("component {} is {}", one.name, word(one.state)));
  }
  return join(words, ", ");
}

std::string running_detail(const RunRecord& record) {
  if (!record.has_events) return "the job runs; lead has not reported yet";
  if (!record.restarts.empty() && record.restarts.back().attempt == record.attempt)
    return fmt::format("attempt {} has ended ({}); the run starts again", record.attempt,
                       record.restarts.back().cause);
  if (!record.attempt_end_reason.empty())
    return fmt::format("attempt {} has ended ({})", record.attempt,
                       record.attempt_end_reason.text());
  if (record.staging_node_count > 0)
    return fmt::format("staging: {} {} data before the programs start (stage)",
                       record.staging_node_count == 1
                           ? std::string("a node")
                           : fmt::format("{} nodes", record.staging_node_count),
                       record.staging_node_count == 1 ? "copies" : "copy");
  if (const auto checks = select_checks(record.checks, false);
      !record.have_ranks_joined && !checks.empty())
    return fmt::format("the nodes are checked ({}) before the ranks join", printable(checks));
  if (!record.components.empty()) return components_detail(record);
  if (!record.have_ranks_joined) return "waiting for the ranks to join";
  if (const auto checks = select_checks(record.checks, true);
      !record.has_checked_collectives && !checks.empty())
    return fmt::format("the ranks try a collective ({}) before the programs start",
                       printable(checks));
  return {};
}

/// Returns the state according to the run's own record alone. Call it for a run about which no
/// executor has answered and whose record has no end.
RunState last_known_state(const RunRecord& record) {
  return record.has_events ? RunState::kRunning : RunState::kPending;
}

/// Returns the follow-up job on which the state of a run with a chain depends; nullptr if that is
/// the first job, or if the run has no chain.
const FollowUp* deciding_follow_up(const RunFacts& facts) {
  const auto job = job_of(facts);
  if (!job) return nullptr;
  const auto found =
      std::find_if(facts.follow_ups.begin(), facts.follow_ups.end(),
                   [&](const FollowUp& one) { return one.submission.job.id == job->id; });
  return found == facts.follow_ups.end() ? nullptr : &*found;
}

void assess_by_report(RunStatus& status, const JobReport& report) {
  const RunRecord& record = status.facts.record;
  switch (report.phase) {
    case JobPhase::kPending:
      status.state = RunState::kPending;
      status.detail = pending_sentence(report, submitted_dependency(status.facts));
      if (!record.restarts.empty())
        status.detail = fmt::format("attempt {} has ended ({}); {}{}{}",
                                    record.restarts.back().attempt, record.restarts.back().cause,
                                    deciding_follow_up(status.facts) != nullptr
                                        ? "a job of the chain continues the run"
                                        : "queued again",
                                    status.detail.empty() ? "" : ": ", status.detail);
      if (!report.start.empty())
        status.detail +=
            fmt::format("{}expected start {}", status.detail.empty() ? "" : "; ", report.start);
      return;
    case JobPhase::kRunning:
      status.state = RunState::kRunning;
      status.detail = report.state == "RUNNING" ? running_detail(record)
                      : is_ending_after_cancel(status)
                          ? fmt::format("{}, and its processes are being ended", kCancelledByUser)
                      : report.state == "COMPLETING"
                          ? "its processes have ended or are being ended (COMPLETING)"
                          : report.state;
      return;
    case JobPhase::kEnded:
      if (report.state == "COMPLETED") {
        status.state = RunState::kCompleted;
        if (record.has_events)
          status.detail = "Slurm says COMPLETED, but the run's own record has no end";
        return;
      }
      status.state = report.state == "CANCELLED" ? RunState::kCancelled
                     : report.state == "TIMEOUT" ? RunState::kTimeout
                                                 : RunState::kFailed;
      status.detail = explain_end(report, status.facts.has_cancel_mark);
      if (was_cancelled_while_waiting(status) && failed_dependency_text(report).empty())
        status.detail +=
            fmt::format("; its dependency was {}", printable(submitted_dependency(status.facts)));
      if (const RankFailure* const failed = failure_behind_end(status)) {
        status.detail += "; " + describe(*failed);
        status.detail_shows_failed_rank = true;
      }
      return;
  }
}

/// Returns the detail of a run whose record has its end. status.state,
/// status.detail_shows_failed_rank and status.job must be set.
std::string detail_of_recorded_end(const RunStatus& status) {
  const RunFacts& f = status.facts;
  const std::string& message = f.record.end_message;
  if (status.state != RunState::kCancelled || status.detail_shows_failed_rank) return message;
  // Lead knows only that a signal came, and not that `dlrun cancel` was the reason.
  if (f.has_cancel_mark) return kCancelledByUser;
  // A missing mark proves nothing in two cases: `dlrun cancel` of a whole sweep marks the arrays
  // instead of the points, and Ctrl-C ends a run on this machine without a mark.
  const bool would_have_mark =
      f.submission && !f.submission->task && status.job.cluster != kLocalCluster;
  if (!would_have_mark || !f.record.was_signalled_without_cause) return message;
  return message +
         "; not by `dlrun cancel`, so probably by scancel, an administrator or a preemption";
}

/// Determines the state of another user's run from its files, because dlrun does not ask Slurm
/// about it.
void assess_foreign(RunStatus& status) {
  const RunFacts& f = status.facts;
  const bool is_refused = f.submission && f.submission->state == Submission::State::kRefused;
  const bool is_known = is_refused || f.record.has_events || !status.job.id.empty();
  status.state = is_refused ? RunState::kRefused
                 : is_known ? last_known_state(f.record)
                            : RunState::kUnknown;
  status.may_be_outdated = !is_refused;
  status.detail = describe_foreign_run(*f.foreign);
}

/// Determines the state if the executor did not answer. is_intent: the submission is still an
/// intent.
void assess_unreachable(RunStatus& status, bool is_intent) {
  const RunFacts& f = status.facts;
  status.may_be_outdated = true;
  status.state = is_intent && !f.claim ? RunState::kUnknown : last_known_state(f.record);
  status.detail =
      is_intent && !f.claim
          ? fmt::format("it is not known whether Slurm took the job; {}", f.why_unreachable)
          : f.why_unreachable;
}

/// Describes a submission that was interrupted before Slurm had the job, or before the script was
/// started on this machine.
void assess_not_submitted(RunStatus& status) {
  const Submission& submission = *status.facts.submission;
  status.state = RunState::kNotSubmitted;
  if (submission.job.cluster == kLocalCluster) {
    status.detail = "its start on this machine was interrupted; start it again";
    return;
  }
  if (!submission.task) {
    status.detail = "the submission was interrupted, and Slurm knows no job of it; submit again";
    return;
  }
  status.detail = fmt::format(
      "{}; `dlrun resubmit` of the sweep submits the missing points",
      submission.token.empty()
          ? "it was not submitted: the submission ended before its array's turn"
          : "the submission of its array was interrupted, and Slurm knows no job of it");
}

/// Describes a run whose job is unknown, or is no longer known to its executor.
void assess_unknown(RunStatus& status) {
  const RunFacts& f = status.facts;
  status.state = RunState::kUnknown;
  if (!f.has_answer) {
    status.detail = "its files contain no job id";
  } else if (status.job.cluster == kLocalCluster) {
    status.detail =
        fmt::format("it ran on {}; run `dlrun status` there to see whether it still runs",
                    host_of_local_job(status.job.id));
  } else {
    status.detail = fmt::format("Slurm no longer knows job {}, and the run's own record has no end",
                                status.job.id);
    if (!f.why_no_accounting.empty())
      status.detail += fmt::format(" (accounting: {})", f.why_no_accounting);
  }
}

/// Returns the counter for the points in this state.
std::size_t& count_of(SweepCounts& counts, RunState state) {
  switch (state) {
    case RunState::kPending:
      return counts.pending;
    case RunState::kRunning:
      return counts.running;
    case RunState::kCompleted:
      return counts.completed;
    case RunState::kFailed:
      return counts.failed;
    case RunState::kTimeout:
      return counts.timeout;
    case RunState::kRefused:
      return counts.refused;
    case RunState::kCancelled:
      return counts.cancelled;
    case RunState::kNotSubmitted:
      return counts.not_submitted;
    case RunState::kUnknown:
      break;
  }
  return counts.unknown;
}

/// Returns the state of a sweep whose points have these states.
RunState state_of_sweep(const SweepCounts& counts) {
  if (counts.pending == counts.points) return RunState::kPending;
  if (counts.running + counts.pending > 0) return RunState::kRunning;
  if (counts.completed == counts.points) return RunState::kCompleted;
  if (counts.unsuccessful() > 0) return RunState::kFailed;
  if (counts.cancelled > 0) return RunState::kCancelled;
  return counts.unknown > 0 ? RunState::kUnknown : RunState::kNotSubmitted;
}

}  // namespace

std::string_view word(RunState state) {
  switch (state) {
    case RunState::kNotSubmitted:
      return "not_submitted";
    case RunState::kRefused:
      return "refused";
    case RunState::kPending:
      return "pending";
    case RunState::kRunning:
      return "running";
    case RunState::kCompleted:
      return "completed";
    case RunState::kFailed:
      return "failed";
    case RunState::kCancelled:
      return "cancelled";
    case RunState::kTimeout:
      return "timeout";
    case RunState::kUnknown:
      return "unknown";
  }
  return "unknown";
}

std::optional<RunState> run_state_of(std::string_view name) {
  for (const RunState state : kRunStates) {
    if (word(state) == name) return state;
  }
  return std::nullopt;
}

bool is_inactive(RunState state) {
  return state != RunState::kPending && state != RunState::kRunning;
}

const RankFailure* failure_behind_end(const RunStatus& status) {
  const auto& failed = status.facts.record.first_failed;
  if (!failed) return nullptr;
  const bool is_by_cancellation = status.state == RunState::kCancelled &&
                                  status.facts.record.attempt_end_reason == EndReason::kSignalled;
  return is_by_cancellation ? nullptr : &*failed;
}

std::string describe(const RankFailure& failure) {
  std::string text =
      failure.component.empty() ? "" : fmt::format("component {}: ", failure.component);
  text += failure.rank >= 0 ? fmt::format("rank {}", failure.rank) : "a rank";
  if (!failure.host.empty()) text += fmt::format(" on {}", failure.host);
  text += failure.signal.empty() ? fmt::format(" ended with code {}", failure.code)
                                 : fmt::format(" was ended by {}", failure.signal);
  if (!failure.error.empty()) text += fmt::format(" ({})", failure.error);
  return text;
}

std::vector<JobId> chain_jobs_of(const RunFacts& facts) {
  std::vector<JobId> jobs;
  if (!facts.submission || facts.submission->chain_job_count == 0) return jobs;
  if (!facts.submission->job.id.empty()) jobs.push_back(facts.submission->job);
  for (const FollowUp& one : facts.follow_ups) {
    if (!one.submission.job.id.empty()) jobs.push_back(one.submission.job);
  }
  return jobs;
}

std::string enclosing_job_of(const RunFacts& facts) {
  // For `submit --in` and `run --here`, the submission has the id of the script's process on this
  // machine, and lead's claim has the id of the Slurm job of the allocation.
  const bool is_local = facts.submission && facts.submission->job.cluster == kLocalCluster;
  return is_local && facts.claim && !parse_local_job(facts.claim->job.id) ? facts.claim->job.id
                                                                          : std::string();
}

std::optional<JobId> job_of(const RunFacts& facts) {
  return facts.chain_job ? facts.chain_job : job_named_by_files(facts);
}

std::optional<JobId> job_named_by_files(const RunFacts& facts) {
  if (facts.claim && has_follow_up(facts.follow_ups, facts.claim->job.id))
    return JobId{facts.submission->job.cluster, facts.claim->job.id};
  if (facts.submission && !facts.submission->job.id.empty()) return facts.submission->job;
  if (facts.claim && parse_local_job(facts.claim->job.id))
    return JobId{std::string(kLocalCluster), facts.claim->job.id};
  // Leaves out the claim's cluster: a query with -M requires the accounting database.
  if (facts.claim && !facts.claim->job.id.empty()) return JobId{"", facts.claim->job.id};
  return std::nullopt;
}

std::string submitted_dependency(const RunFacts& facts) {
  if (!facts.submission) return {};
  const FollowUp* const later = deciding_follow_up(facts);
  return (later != nullptr ? later->submission : *facts.submission).dependency;
}

bool was_cancelled_while_waiting(const RunStatus& status) {
  const RunFacts& facts = status.facts;
  return status.state == RunState::kCancelled && !facts.record.has_events && !facts.claim &&
         !submitted_dependency(facts).empty();
}

bool is_ending_after_cancel(const RunStatus& status) {
  const RunFacts& facts = status.facts;
  return facts.report && facts.report->state == "COMPLETING" && facts.has_cancel_mark;
}

std::string_view pid_namespace_of(const RunFacts& facts) {
  return facts.submission ? std::string_view(facts.submission->pid_namespace) : std::string_view();
}

std::string_view token_of(const RunFacts& facts) {
  if (facts.submission && !facts.submission->token.empty()) return facts.submission->token;
  return facts.claim ? std::string_view(facts.claim->token) : std::string_view();
}

RunStatus assess(RunFacts facts) {
  RunStatus status;
  status.facts = std::move(facts);
  const RunFacts& f = status.facts;
  if (const auto job = job_of(f)) status.job = *job;
  const bool is_refused = f.submission && f.submission->state == Submission::State::kRefused;
  const bool is_intent = f.submission && f.submission->state == Submission::State::kIntent;
  const bool is_intent_without_job = is_intent && status.job.id.empty();

  if (f.record.ended) {
    status.state = end_state(f.record);
    status.detail_shows_failed_rank = f.record.end_message_shows_failed_rank;
    status.detail = detail_of_recorded_end(status);
  } else if (f.foreign) {
    assess_foreign(status);
  } else if (f.is_only_prepared) {
    status.state = RunState::kNotSubmitted;
    status.detail =
        "its job is not submitted yet; if no dlrun is submitting the job now, submit the run again";
  } else if (is_refused) {
    status.state = RunState::kRefused;
    status.detail = f.submission->message;
  } else if (f.report) {
    assess_by_report(status, *f.report);
  } else if (is_intent_without_job && f.is_being_submitted) {
    status.state = RunState::kPending;
    status.may_be_outdated = !f.why_unreachable.empty();
    status.detail = "it is being submitted, and Slurm has not answered yet";
  } else if (!f.why_unreachable.empty()) {
    assess_unreachable(status, is_intent);
  } else if (is_intent_without_job) {
    assess_not_submitted(status);
  } else if (f.submission && f.has_cancel_mark && f.has_answer && !f.record.has_events) {
    status.state = RunState::kCancelled;
    status.detail = fmt::format("{} before it started", kCancelledByUser);
  } else {
    assess_unknown(status);
  }
  return status;
}

bool is_unreachable(const RunStatus& status) {
  return status.may_be_outdated && !status.facts.foreign;
}

bool is_submission_open(const RunStatus& status) {
  const RunFacts& f = status.facts;
  return f.submission && f.submission->state == Submission::State::kIntent && !job_of(f) &&
         (f.is_being_submitted || !f.why_unreachable.empty());
}

bool is_over(const RunStatus& status) {
  if (status.may_be_outdated) return false;
  switch (status.state) {
    case RunState::kCompleted:
    case RunState::kFailed:
    case RunState::kTimeout:
    case RunState::kCancelled:
    case RunState::kRefused:
      return true;
    case RunState::kNotSubmitted:
    case RunState::kPending:
    case RunState::kRunning:
    case RunState::kUnknown:
      return false;
  }
  return false;
}

std::string describe(const SweepCounts& counts) {
  std::string text = fmt::format("{} point{}", counts.points, counts.points == 1 ? "" : "s");
  const char* separator = ": ";
  const auto add = [&](std::size_t count, const char* what) {
    if (count == 0) return;
    text += fmt::format("{}{} {}", separator, count, what);
    separator = ", ";
  };
  add(counts.completed, "completed");
  add(counts.unsuccessful(), "failed");
  add(counts.cancelled, "cancelled");
  add(counts.running, "running");
  add(counts.pending, "pending");
  add(counts.not_submitted, "not submitted");
  add(counts.unknown, "unknown");
  return text;
}

RunStatus sum_up_points(const std::vector<Result<RunStatus>>& points) {
  RunStatus status;
  SweepCounts counts;
  counts.points = points.size();
  std::string why_pending;
  std::set<std::string> seen;
  for (const auto& point : points) {
    ++count_of(counts, point ? point->state : RunState::kUnknown);
    if (!point) continue;
    const std::string job = point->job.id.substr(0, point->job.id.find('_'));
    if (status.job.id.empty() && !job.empty()) status.job = {point->job.cluster, job};
    if (!job.empty() && seen.insert(job).second) status.jobs.push_back(job);
    if (point->may_be_outdated) status.may_be_outdated = true;
    if (is_unreachable(*point)) status.facts.why_unreachable = point->facts.why_unreachable;
    if (point->state == RunState::kPending && why_pending.empty()) why_pending = point->detail;
  }
  status.state = state_of_sweep(counts);
  status.detail = describe(counts);
  if (status.state == RunState::kPending && !why_pending.empty())
    status.detail += "; " + why_pending;
  status.sweep = counts;
  return status;
}

}  // namespace dlrun
