#pragma once
// Finds the run of this job and claims it, so that no other job works on the run. Reads and writes
// the files `claim`, `claim.after-K`, `claim.repaired`, `attempt` and `origin` of the run
// directory, and reads `submission.json`.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "common/env.h"
#include "common/result.h"

namespace dlrun::agent {

/// The identity of the job. `job` is Slurm's id, ARRAYJOB_TASK for an array task, and
/// HOST:PID:START for a job on this machine.
struct JobIdentity {
  std::string cluster;
  std::string job;
  std::string token;  ///< empty for a script submitted by hand
};

/// Returns the identity of this job. Fails with kUsage if the run is not local and env lacks the id
/// of a Slurm job. For a local run, fails if the host name or /proc/self/stat cannot be read.
[[nodiscard]] Result<JobIdentity> identify_job(const Env& env, bool is_local);

struct ClaimedRun {
  std::filesystem::path directory;  ///< absolute
  int attempt = 0;
  /// An earlier start of this job, or an earlier job of the chain, has claimed the run.
  bool was_claimed_before = false;
  std::optional<int> number_in_chain{};  ///< the job's number in the run's chain; nullopt: no chain
};

/// Returns the absolute path of the run directory: $DLRUN_RUN, otherwise RUNS/NAME-JOB. Each
/// ':' and '/' of JOB becomes '-'.
[[nodiscard]] std::filesystem::path run_directory_of(const Env& env, const JobIdentity& identity,
                                                     const std::filesystem::path& runs,
                                                     std::string_view name);

/// Creates the directory if necessary, claims it for the job, and begins the next attempt. The
/// attempt's number is the one in the file `attempt` plus one; restart_count if there is no such
/// file.
///
/// Fails with kRefused if another job has claimed the run (the message contains that job's id), or
/// if this job's token is not that of the run's submission. On a file system without links and
/// exclusive renames, a crash may have left a claim without valid content. This function takes such
/// a claim over if the file belongs to this user, and if the run was made for this job: the run's
/// name or another file of the run contains the job's id, or a file contains the job's token. Only
/// one job can take the claim over.
///
/// number_in_chain: this job's number in the chain of the run's jobs (retry.chain), from 0;
/// nullopt: the run has no chain. A later job of the chain takes the run over from an earlier one,
/// never the reverse: an earlier job fails with kRefused. If several jobs try to take the run over
/// from the same job, exactly one succeeds.
///
/// Fails with kIo if a file cannot be read or written, and with kInvalid if a file is damaged.
[[nodiscard]] Result<ClaimedRun> claim_run(const std::filesystem::path& directory,
                                           const JobIdentity& identity, std::string_view name,
                                           int restart_count,
                                           std::optional<int> number_in_chain = std::nullopt);

/// The job that claimed the run last.
struct RunHolder {
  std::string cluster, job;
  std::optional<int> number;  ///< the job's number in the chain; nullopt: the claim has no number
};
/// Returns the holder of the run. Fails with kNotFound if no job has claimed the run, and with
/// kInvalid if a file is damaged.
[[nodiscard]] Result<RunHolder> run_holder(const std::filesystem::path& directory);

/// Makes the attempt with this number the run's current one. The number fences off earlier
/// attempts: they must not write any more. Fails as write_file_atomic() does.
[[nodiscard]] Result<> write_attempt(const std::filesystem::path& directory, int attempt);

/// Returns the number in the run's `attempt` file. Fails with kNotFound before the first attempt,
/// with kInvalid if the file is damaged, and with kIo if the file cannot be read.
[[nodiscard]] Result<int> read_attempt(const std::filesystem::path& directory);

/// Returns Slurm's number of requeues of this job; 0 if SLURM_RESTART_COUNT is not set, or is not a
/// number from 0 to 999,999.
[[nodiscard]] int restart_count_of(const Env& env);

}  // namespace dlrun::agent
