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
/// if there are no other jobs: the run has no chain, is local or borrows its allocation, or its
/// script was submitted by hand.
[[nodiscard]] std::optional<int> job_number_in_chain(const LeadOptions& options, const Env& env);

/// A job of a chain that ends immediately, because the run does not need it.
struct UnneededJob {
  std::string message;
  /// Exit code of the job: 0 if the run has completed, so that jobs that wait for the chain may
  /// start; otherwise at least 1.
  int code = 0;
};

/// Returns why this job, which is not the first one of its chain, must end immediately: the run is
/// over or its folder is gone. Returns nullopt if the job may take the run over. Asks Slurm once
/// about the job that claimed the run last; without a claim, about the first job. Fails with
/// kRefused if that job runs, or may still run; if Slurm does not answer, that job counts as ended.
/// Other failures are those of read_history_file(); a missing record is no failure.
[[nodiscard]] Result<std::optional<UnneededJob>> why_unneeded(const std::filesystem::path& run,
                                                              const LeadOptions& options,
                                                              const Env& env,
                                                              const std::string& own_job);

/// Returns the ids of the jobs `number` + 1 to `job_count` - 1 of the chain, in order. Leaves out
/// jobs whose submission.json contains no id of a Slurm job, cannot be read or belongs to another
/// user.
[[nodiscard]] std::vector<std::string> later_jobs(const std::filesystem::path& run, int number,
                                                  int job_count);

/// Returns true if a job in this state runs, or may run later. state: from `scontrol show job`.
[[nodiscard]] bool may_still_run(std::string_view state);

/// Returns the first of the jobs that may still run; nullopt if there is none. If Slurm does not
/// answer, a job counts as one that may still run; if Slurm does not know the job, it counts as
/// ended. env: the environment of Slurm's commands.
[[nodiscard]] std::optional<std::string> first_that_may_still_run(
    const std::vector<std::string>& jobs, const Env& env);

/// Returns those of the later jobs that can be cancelled once the run is over: all of them, but not
/// the last one if another job waits for it. dependencies: the output of `squeue --format=%E`.
[[nodiscard]] std::vector<std::string> jobs_to_cancel(const std::vector<std::string>& later,
                                                      std::string_view dependencies);

}  // namespace dlrun::agent
