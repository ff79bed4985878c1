#pragma once
// How a job's script came to its EXIT trap before it started the ranks: of itself, or because Slurm
// ends the job. No I/O.

#include <optional>
#include <string>
#include <string_view>

#include "runtime/agent/attempt.h"
#include "runtime/agent/controller.h"

namespace dlrun::agent {

/// Slurm's word for why it ends a step or a job, as an end's cause. kNone: it is somebody's wish,
/// or has no name.
[[nodiscard]] Cause cause_of_cancel(std::string_view reason);
/// As a sentence; of no reason that the job was cancelled.
[[nodiscard]] std::string why_cancelled(std::string_view reason);

/// What a script leaves to judge by.
struct ScriptTrap {
  int code = 0;    ///< bash's $?: of a script that a signal ended the last command's, mostly 0
  std::string at;  ///< the command that it was at, printable
  std::optional<JobFacts>
      facts;         ///< what Slurm says of the job now; nothing: no answer, or no Slurm
  int restarts = 0;  ///< Slurm's count of its restarts when it began
  std::string_view
      log;  ///< the end of the script's standard error, where Slurm says why it ends a job
};

struct ScriptEnd {
  AttemptEnd end;
  bool comes_again = false;  ///< Slurm queues the job again: that is not the run's end
};

[[nodiscard]] ScriptEnd judge_script_end(const ScriptTrap& trap);

/// The step could not be launched (end, whose code is the trap's): where Slurm ends the job, that
/// is why, and end says so from now on. True: the run is left open, for Slurm queues the job again,
/// or knows better than its log.
[[nodiscard]] bool blame_jobs_end(AttemptEnd& end, const ScriptTrap& trap);

}  // namespace dlrun::agent
