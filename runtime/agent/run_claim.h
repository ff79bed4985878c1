#pragma once
// Which run this job works on, and that no other job does: the files `claim`, `attempt` and
// `origin` of a run directory.

#include <filesystem>
#include <string>
#include <string_view>

#include "common/env.h"
#include "common/result.h"

namespace dlrun::agent {

/// What identifies the job. An array's task is ARRAYJOB_TASK, a job on this machine HOST:PID:START.
struct JobIdentity {
  std::string cluster;
  std::string job;
  std::string token;  ///< empty for a script submitted by hand
};

/// Fails with kUsage when there is no Slurm job in env and the run is not local.
[[nodiscard]] Result<JobIdentity> identify_job(const Env& env, bool is_local);

struct ClaimedRun {
  std::filesystem::path directory;  ///< absolute
  int attempt = 0;
  bool again = false;  ///< the same job had it before: a requeue
};

/// Where the run is: $DLRUN_RUN, else RUNS/NAME-JOB. Absolute.
[[nodiscard]] std::filesystem::path run_directory_of(const Env& env, const JobIdentity& identity,
                                                     const std::filesystem::path& runs,
                                                     std::string_view name);

/// Makes the directory if need be, claims it for the job, and begins the next attempt: the number
/// after the one in `attempt`, else restart_count. A claim with a token that is not the
/// submission's, and another job's, fail with kRefused; the message names who holds the run. A
/// claim that cannot be read (an earlier version left one when it was killed) is taken over where
/// it is this user's and the run's own files name the job or its token; only one job can. kIo: the
/// directory cannot be written.
[[nodiscard]] Result<ClaimedRun> claim_run(const std::filesystem::path& directory,
                                           const JobIdentity& identity, std::string_view name,
                                           int restart_count);

/// From now on attempt is the run's: whoever writes for an earlier one may not any more.
[[nodiscard]] Result<> begin_attempt(const std::filesystem::path& directory, int attempt);

/// The number in the run's attempt file. kNotFound before the first.
[[nodiscard]] Result<int> read_attempt(const std::filesystem::path& directory);

/// Slurm's count of requeues, 0 where it says none.
[[nodiscard]] int restart_count_of(const Env& env);

}  // namespace dlrun::agent
