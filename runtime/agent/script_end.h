#pragma once
// Decides why the ranks of a job were not started: the script ended by itself, its step could not
// be launched, or Slurm ends the job. No I/O.

#include <optional>
#include <string>
#include <string_view>

#include "runtime/agent/attempt.h"
#include "runtime/agent/controller.h"

namespace dlrun::agent {

/// Returns the cause that belongs to the reason ("TIME LIMIT") with which Slurm ends a step or a
/// job. Returns kNone if a user cancelled the step or job, or if the reason is unknown.
[[nodiscard]] Cause cause_of_cancel(std::string_view reason);
/// Returns the reason as a sentence. If the reason is empty, the sentence says that the job was
/// cancelled.
[[nodiscard]] std::string why_cancelled(std::string_view reason);

/// The facts about a script that reached its EXIT trap, or whose step could not be launched.
struct ScriptAtExit {
  /// bash's $?. If a signal ended the script, $? is the code of the last command, mostly 0.
  int code = 0;
  std::string at;  ///< the command at which the script ended, without control characters
  /// Slurm's present facts about the job; nullopt: no answer, or no Slurm.
  std::optional<JobFacts> facts;
  int restarts = 0;  ///< Slurm's number of restarts when this start of the job began
  /// The last bytes of the script's standard error, where Slurm writes why it ends a job.
  std::string_view log;
};

struct ScriptEnd {
  AttemptEnd end;
  /// True if Slurm queues the job again, or if it may do so and the controller did not answer.
  /// The end of the run must then not be recorded.
  bool may_be_queued_again = false;
};

/// Returns the end of an attempt whose script ended before it started the ranks.
[[nodiscard]] ScriptEnd judge_script_end(const ScriptAtExit& script);

/// Returns the end of an attempt whose step could not be launched. end: the attempt's end according
/// to srun. If the launch failed because Slurm ends the job, the result has the code, the reason
/// and the cause of the job's end, and its message begins with Slurm's reason.
[[nodiscard]] ScriptEnd judge_failed_launch(AttemptEnd end, const ScriptAtExit& script);

}  // namespace dlrun::agent
