#pragma once
// Finds the node of a running job on which a shell can start beside the ranks.

#include <filesystem>
#include <string>

#include "common/env.h"
#include "launcher/executors/foreground.h"
#include "launcher/plan/render.h"
#include "launcher/runs/index.h"
#include "launcher/runs/status.h"

namespace dlrun {

/// Returns the job, the node and the job's CPUs on it. node: the node to use; empty: the first one.
/// Asks Slurm for the job id of an array's task, and for the CPUs. Fails with kUsage if the run has
/// no job to attach to or does not run on the node, and with kUnavailable if Slurm does not answer.
[[nodiscard]] Result<AttachTarget> attach_target(const Env& env, const IndexEntry& run,
                                                 const RunStatus& status, const std::string& node);

/// Returns the folder where the job's programs started: the folder in the run's journal, or else
/// `place`, the folder in the plan. Returns the run's parent folder if that folder no longer
/// exists.
[[nodiscard]] std::filesystem::path attach_folder(const IndexEntry& run, const RunStatus& status,
                                                  std::filesystem::path place);

/// Starts the session on the caller's terminal, in `folder`.
[[nodiscard]] Result<ForegroundProcess> start_session(const Env& env, const Interactive& session,
                                                      const std::filesystem::path& folder);

}  // namespace dlrun
