#pragma once
// Implements `dlrun interactive`, which starts a shell or a command on the first node of a new
// allocation, in the environment and the container of a job.

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/executors/foreground.h"
#include "launcher/plan/render.h"
#include "launcher/submit/experiment.h"

namespace dlrun {

/// The options of run_interactive() and attach_to(), except those that change the spec
/// (SpecOptions).
struct SessionChoices {
  std::vector<std::string> command;  ///< empty: a shell
  bool has_terminal = false;         ///< standard input is a terminal
  bool is_dry_run = false;           ///< only returns the call that would start the session
};

/// With is_dry_run: the call that would start the session. Otherwise the end of the session.
using SessionResult = std::variant<PlannedSession, ForegroundEnd>;

/// Plans and checks the job, fetches its downloads, builds its environments, asks Slurm for the
/// allocation, and runs choices.command (or a shell) in the foreground until it ends. point: for a
/// sweep, the point whose environment is used.
///
/// Fails with kUsage for a sweep without `point`, and for a shell without a terminal; with
/// kNotFound if this machine has no Slurm; with kInterrupted after a signal before the session has
/// begun; with kUnavailable or kRefused if Slurm gives no allocation. In the last case, salloc has
/// printed the reason.
[[nodiscard]] Result<SessionResult> run_interactive(const Context& context, Reporter& reporter,
                                                    const SpecOptions& options,
                                                    const std::optional<std::size_t>& point,
                                                    const SessionChoices& choices);

/// Fails with kUsage if the session would be a shell without a terminal.
[[nodiscard]] Result<> refuse_shell_without_terminal(const SessionChoices& choices);

/// Returns dlrun's exit code after a session: 130 if dlrun got a signal during the session, 0 after
/// a shell, else the exit code of the command.
[[nodiscard]] int exit_code_of_session(const SessionChoices& choices, const ForegroundEnd& end);

}  // namespace dlrun
