#pragma once
// A shell or a command on the first node of a new allocation, in the environment and the container
// of a job.

#include <string>
#include <vector>

#include "launcher/executors/foreground.h"
#include "launcher/submit/job.h"

namespace dlrun {

/// The end of a session.
struct SessionEnd {
  bool has_begun = false;  ///< the session's script started; salloc's exit code does not show this
  ForegroundEnd end;
};

/// Fetches the job's downloads, asks Slurm for the allocation, and runs the command (a shell if it
/// is empty) in the foreground until it ends. The job must have passed check_job(). Fails with
/// kNotFound if this machine has no Slurm.
[[nodiscard]] Result<SessionEnd> run_session(const Context& context, Reporter& reporter,
                                             const Job& job,
                                             const std::vector<std::string>& command,
                                             bool has_terminal);

/// Returns the error of a salloc that got no allocation: kUnavailable if the controller does not
/// answer, otherwise kRefused. salloc has already printed its own reason.
[[nodiscard]] Error no_allocation(const Context& context, const Job& job,
                                  const SessionEnd& session);

}  // namespace dlrun
