#pragma once
// Finds the node of a running job on which a shell can start beside the ranks.

#include <filesystem>
#include <string>

#include "common/env.h"
#include "launcher/executors/foreground.h"
#include "launcher/plan/render.h"
#include "launcher/runs/index.h"
#include "launcher/runs/status.h"
#include "launcher/submit/context.h"

namespace dlrun {

/// Returns the job and the node, without the CPUs. node: the node to use; empty: the first one.
/// Asks Slurm for the job id of an array's task. Fails with kUsage if the run has no running job
/// or does not run on the node, and with kUnavailable if Slurm does not answer.
[[nodiscard]] Result<AttachTarget> job_target(const Env& env, const IndexEntry& run,
                                              const RunStatus& status, const std::string& node);

/// Returns the job, the node and the job's CPUs on it. Asks Slurm for the CPUs; the rest is as in
/// job_target().
[[nodiscard]] Result<AttachTarget> attach_target(const Env& env, const IndexEntry& run,
                                                 const RunStatus& status, const std::string& node);

/// Returns the folder of runs that holds the run, or the sweep of the point.
[[nodiscard]] std::filesystem::path runs_folder_of(const std::filesystem::path& run);

/// Copies the agent beside the runs if it is not there yet. Returns its path. Fails as
/// stage_tools() does.
[[nodiscard]] Result<std::filesystem::path> stage_agent(const Context& context,
                                                        const std::filesystem::path& runs_dir);

/// Returns the folder where the job's programs started: the folder in the run's journal, or else
/// `place`, the folder in the plan. Returns the run's parent folder if that folder no longer
/// exists.
[[nodiscard]] std::filesystem::path attach_folder(const IndexEntry& run, const RunStatus& status,
                                                  std::filesystem::path place);

/// Starts the session on the caller's terminal, in `folder`.
[[nodiscard]] Result<ForegroundProcess> start_session(const Env& env, const Interactive& session,
                                                      const std::filesystem::path& folder);

}  // namespace dlrun
