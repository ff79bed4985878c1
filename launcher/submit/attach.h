#pragma once
// Starts a shell or a command beside the ranks of a running job: finds the job, the node and the
// plan. `forward` and `ssh-config` use the same functions to enter a job.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "launcher/plan/render.h"
#include "launcher/runs/index.h"
#include "launcher/runs/status.h"
#include "launcher/submit/context.h"
#include "launcher/submit/reporter.h"
#include "launcher/submit/session.h"

namespace dlrun {

/// Returns the run that `text` names, for a command that enters the run's job. Fails as find_run()
/// does, and with kUsage for another user's run and for a sweep. advice: what the message about a
/// sweep tells the user to do; the message continues with an example of a point.
[[nodiscard]] Result<IndexEntry> find_run_to_enter(const Context& context, const std::string& text,
                                                   std::string_view advice = "name one point");

/// Makes the plan of an existing run again. If the run's script contains no spec, reports a note
/// and returns an empty plan. Fails if the spec can no longer be read or planned.
[[nodiscard]] Result<LaunchPlan> plan_of_run(const Context& context, Reporter& reporter,
                                             const std::filesystem::path& run);

/// Returns the job and the node; AttachTarget::cpus stays empty. node: the node to use; empty: the
/// first one. Asks Slurm for the job id of an array's task. Fails with kUsage if the run has no
/// running job of its own in Slurm or does not run on the node, and with kUnavailable if Slurm does
/// not answer.
[[nodiscard]] Result<AttachTarget> find_target(const Env& env, const IndexEntry& run,
                                               const RunStatus& status, const std::string& node);

/// Does the same as find_target(), and also sets the number of the job's CPUs on the node
/// if Slurm reports it.
[[nodiscard]] Result<AttachTarget> find_target_and_cpu_count(const Env& env, const IndexEntry& run,
                                                             const RunStatus& status,
                                                             const std::string& node);

/// Returns the runs folder that holds the run; for a point, the runs folder that holds its sweep.
[[nodiscard]] std::filesystem::path runs_folder_of(const std::filesystem::path& run);

/// Copies the agent beside the runs if it is not there yet. Returns the path of the copy. Fails as
/// copy_missing_tools() does.
[[nodiscard]] Result<std::filesystem::path> copy_agent_beside_runs(
    const Context& context, const std::filesystem::path& runs_dir);

/// Returns the folder where the job's programs started: the folder in the run's journal, or else
/// `planned`, the folder in the plan. If this folder no longer exists, returns the run's parent
/// folder.
[[nodiscard]] std::filesystem::path start_folder_of_run(const IndexEntry& run,
                                                        const RunStatus& status,
                                                        std::filesystem::path planned);

/// Runs a command beside the ranks of the run that `text` names, and waits until the command ends.
/// The command is choices.command, or a shell if choices.command is empty. With choices.is_dry_run,
/// only returns the call of srun. node: the node to use; empty: the first one. Fails as
/// find_run_to_enter(), find_target_and_cpu_count() and plan_of_run() do, with kUsage for a shell
/// without a terminal, and with kRefused if Slurm did not start the command.
[[nodiscard]] Result<SessionResult> attach_to(const Context& context, Reporter& reporter,
                                              const std::string& text, const std::string& node,
                                              const SessionChoices& choices);

}  // namespace dlrun
