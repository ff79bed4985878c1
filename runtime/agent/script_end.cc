#include "runtime/agent/script_end.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/text.h"
#include "runtime/agent/slurm_words.h"

namespace dlrun::agent {
namespace {

/// Returns true if the job still runs. The script then ended by itself, or by a signal that only
/// the script got.
bool still_runs(const JobFacts& facts) {
  constexpr std::array<std::string_view, 5> kAlive{"RUNNING", "SIGNALING", "SUSPENDED", "STOPPED",
                                                   "RESIZING"};
  return std::find(kAlive.begin(), kAlive.end(), facts.state) != kAlive.end();
}

/// Returns the last reason for the job's end that Slurm wrote to the script's log. The log may also
/// contain reasons from before a requeue.
std::string last_reason(std::string_view log) {
  std::string_view last;
  for (const auto line : split(log, '\n')) last = parse_job_cancel_reason(line).value_or(last);
  return std::string(last);
}

/// Returns true if a signal ended the script. The script normally ends by `exec` of lead, which
/// skips the EXIT trap. The trap therefore gets code 0 only after `exit`, or after a signal whose
/// number bash does not report.
bool was_signalled(const ScriptAtExit& script) {
  if (script.code == 0) return !script.at.starts_with("exit");
  return script.code == 128 + SIGTERM || script.code == 128 + SIGINT || script.code == 128 + SIGHUP;
}

/// Returns " at: COMMAND" with the command at which the script ended. Returns "" if this is the
/// shell's `false`, which dlrun's own lines and Lmod's `module` execute after they have printed why
/// they fail.
std::string at_command(const ScriptAtExit& script) {
  return script.at == "false" ? "" : fmt::format(" at: {}", script.at);
}

/// Returns the end of an attempt whose script ended by itself, or by a signal that only the script
/// got.
AttemptEnd end_by_script(const ScriptAtExit& script) {
  constexpr std::string_view kNotStarted = "the ranks were not started";
  AttemptEnd end;
  end.is_cancelled = was_signalled(script);
  if (script.code == 0 && end.is_cancelled) {
    end.code = 128 + SIGTERM;
    end.message = fmt::format("a signal ended the job script at: {}; {}", script.at, kNotStarted);
  } else {
    end.code = std::max(script.code, 1);
    end.message = fmt::format("the job script ended with code {}{}; {}", script.code,
                              at_command(script), kNotStarted);
  }
  return end;
}

}  // namespace

Cause cause_of_cancel(std::string_view reason) {
  // slurmstepd reports the reason for a job's end only in these words.
  struct Row {
    std::string_view words;  ///< the beginning of the reason
    Cause cause;
  };
  constexpr std::array<Row, 4> kReasons{{{"TIME LIMIT", Cause::kTimeout},
                                         {"PREEMPTION", Cause::kPreemption},
                                         {"JOB REQUEUE", Cause::kRequeue},
                                         {"NODE FAILURE", Cause::kNodeFailure}}};
  for (const auto& row : kReasons) {
    if (reason.starts_with(row.words)) return row.cause;
  }
  return Cause::kNone;
}

namespace {

/// Returns a cause as a sentence; for an unknown cause Slurm's own reason.
std::string why_ended(Cause cause, std::string_view reason) {
  switch (cause) {
    case Cause::kTimeout:
      return "the job reached its time limit (resources.time)";
    case Cause::kPreemption:
      return "the job was preempted";
    case Cause::kRequeue:
      return "the job was requeued";
    case Cause::kNodeFailure:
      return "a node of the job failed";
    default:
      return reason.empty() ? "the job was cancelled"
                            : fmt::format("Slurm ended the job: {}", printable(reason));
  }
}

}  // namespace

std::string why_cancelled(std::string_view reason) {
  return why_ended(cause_of_cancel(reason), reason);
}

namespace {

/// Returns the end of an attempt whose job Slurm ends. The end's message is the reason, without the
/// command at which the script was. Returns nullopt if the job still runs, or if Slurm does not
/// answer and the log has no reason.
std::optional<ScriptEnd> end_by_slurm(const ScriptAtExit& script) {
  const auto reason = last_reason(script.log);
  const bool is_requeued = script.facts && script.facts->restarts > script.restarts;
  const bool slurm_ends_job =
      script.facts ? is_requeued || !still_runs(*script.facts) : !reason.empty();
  if (!slurm_ends_job) return std::nullopt;

  ScriptEnd result;
  AttemptEnd& end = result.end;
  end.cause = cause_of_cancel(reason);
  if (script.facts && !is_requeued && script.facts->reason == "TimeLimit")
    end.cause = Cause::kTimeout;
  if (is_requeued && reason.empty())
    end.cause = script.facts->is_preempted ? Cause::kPreemption : Cause::kRequeue;
  // Only the controller says whether Slurm queues the job again; the log does not. Without an
  // answer of the controller, a requeue counts as possible, except after a time limit: Slurm does
  // not requeue such a job.
  result.may_be_queued_again = is_requeued || (!script.facts && end.cause != Cause::kTimeout);
  end.code = 128 + SIGTERM;
  end.reason = EndReason::kSignalled;
  end.is_slurms_doing = true;
  end.is_timeout = end.cause == Cause::kTimeout;
  end.is_cancelled = !end.is_timeout && end.cause != Cause::kNodeFailure;
  end.message = why_ended(end.cause, reason);
  return result;
}

}  // namespace

ScriptEnd judge_script_end(const ScriptAtExit& script) {
  auto result = end_by_slurm(script);
  if (!result) return {end_by_script(script)};
  result->end.message +=
      fmt::format("; the job script was at: {}; the ranks were not started", script.at);
  return std::move(*result);
}

ScriptEnd judge_failed_launch(AttemptEnd end, const ScriptAtExit& script) {
  const auto result = end_by_slurm(script);
  if (!result) return {std::move(end)};
  const AttemptEnd& judged = result->end;
  end.code = judged.code;
  end.reason = judged.reason;
  end.cause = judged.cause;
  end.is_slurms_doing = true;
  end.is_timeout = judged.is_timeout;
  end.is_cancelled = judged.is_cancelled;
  end.message = fmt::format("{}; {}", judged.message, end.message);
  return {std::move(end), result->may_be_queued_again};
}

}  // namespace dlrun::agent
