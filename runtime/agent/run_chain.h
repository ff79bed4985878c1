#pragma once
// The chain of a run's jobs (retry.chain), as one of these jobs sees it. The submission queues all
// of them, and each one waits for the end of the job before it. Only run_claim.h decides which of
// them works on the run.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "common/result.h"
#include "runtime/agent/controller.h"
#include "runtime/agent/lead.h"

namespace dlrun::agent {

/// Returns this job's number in the chain of the run's jobs, from 0 ($DLRUN_CHAIN). Returns nullopt
/// if the run has no chain, or if the script was submitted by hand and so has no other jobs.
[[nodiscard]] std::optional<int> chain_number_of(const LeadOptions& options, const Env& env);

/// A job of a chain that ends at once, because the run does not need it.
struct UnneededJob {
  std::string message;
  int code = 0;  ///< 0 if the run has completed, so that jobs that wait for the chain may start
};

/// Decides whether a job after the first one of a chain ends at once: the run is over or its folder
/// is gone. Returns nullopt if the job takes the run over. Fails with kRefused if the job that has
/// the run, or the first job if none has it, has not ended, and as read_history_file() does. Asks
/// Slurm about that job once.
[[nodiscard]] Result<std::optional<UnneededJob>> look_for_work(const std::filesystem::path& run,
                                                               const LeadOptions& options,
                                                               const Env& env,
                                                               const std::string& own_job);

/// Returns the ids of the jobs after the job `number` of a chain of `jobs` jobs, in order. Leaves
/// out jobs that Slurm did not get, and journals that cannot be read or belong to another user.
[[nodiscard]] std::vector<std::string> later_jobs(const std::filesystem::path& run, int number,
                                                  int jobs);

/// Returns true if a job in this state of `scontrol show job` runs, or may still run.
[[nodiscard]] bool may_still_run(std::string_view state);

/// Returns the first of the jobs that may still run; nullopt if there is none. A job counts as one
/// that may run if Slurm does not answer. env: of Slurm's commands.
[[nodiscard]] std::optional<std::string> first_waiting(const std::vector<std::string>& jobs,
                                                       const Env& env);

/// Returns the jobs of a run that is over which can be cancelled: all but the last one, and the
/// last one unless another job waits for it. dependencies: the output of `squeue --format=%E`.
[[nodiscard]] std::vector<std::string> unneeded_jobs(const std::vector<std::string>& later,
                                                     std::string_view dependencies);

}  // namespace dlrun::agent
