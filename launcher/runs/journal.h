#pragma once
// The journal that makes a submission happen exactly once. It is the file submission.json, not
// events.jsonl. The intent and its token are on disk before sbatch is called. A process that later
// finds an intent looks up the job by the token before it submits again.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/files.h"
#include "common/result.h"
#include "launcher/executors/executor.h"
#include "launcher/runs/ownership.h"

namespace dlrun {

/// The contents of submission.json.
struct Submission {
  enum class State { kIntent, kSubmitted, kRefused };
  std::string token;  ///< 32 hexadecimal digits
  State state = State::kIntent;
  /// The job. Its cluster is what queries pass to -M; kLocalCluster for a run on this machine.
  JobId job;
  /// The PID namespace of a job on this machine (own_pid_namespace()); empty for other jobs.
  std::string pid_namespace;
  /// The slurmrestd that got the job; nullopt: sbatch got it.
  std::optional<RestServer> server;
  /// The command that submitted or started the job. For a slurmrestd, the arguments that sbatch
  /// would have got.
  std::vector<std::string> argv;
  std::string time;     ///< UTC, of the latest change
  std::string message;  ///< kRefused: the reason
  /// sbatch's pattern of the job's output, if it is not slurm-JOBID.out in the run directory.
  std::string log_pattern;
  /// sbatch's pattern of the file for standard error; empty: the output file has both.
  std::string error_pattern;
  /// The start folder in the run's copy of the code (code.snapshot), which replaces the script's
  /// start folder. Empty if the run has no copy.
  std::string chdir;
  /// The job's --dependency, such as "afterok:12", as far as dlrun has set it. Empty if the job
  /// waits for no other job.
  std::string dependency;
  /// Set only for a sweep's point: the number of the point's task. job.id is then the task's id,
  /// and the other members are those of the array.
  std::optional<std::int64_t> task;
  /// The number of jobs that the submission queues for the run, this one included (retry.chain).
  /// 0: the run has one job. follow_ups.h reads the journals of the other jobs.
  std::int64_t chain_job_count = 0;
  std::optional<Owner> foreign;  ///< the other user who owns the journal; nullopt: this user does
};

/// Returns the comment that identifies the submission's job in Slurm: "dlrun:TOKEN".
[[nodiscard]] std::string comment_of(const Submission& submission);

/// Returns the text of the journal of a sweep's point. That journal only refers to the array's
/// journal, one folder above. The calling code writes the journal once, before anything is
/// submitted.
[[nodiscard]] std::string journal_of_task(std::size_t task);

/// Reads the journal; for a sweep's point, also that of the array. Returns nullopt if there is no
/// journal, for example because the script was submitted by hand. Fails with kInvalid if a journal
/// is damaged, and as read_file_and_owner() does if it cannot be read.
[[nodiscard]] Result<std::optional<Submission>> read_submission(const std::filesystem::path& run);
/// Replaces the journal atomically. Sets its time.
[[nodiscard]] Result<> write_submission(const std::filesystem::path& run, Submission submission);

/// The file of SubmissionLock, in the run's directory or in a directory of a sweep's array.
inline constexpr const char* kSubmissionLockFile = "submission.lock";

/// A lock that the submitting process holds until Slurm has answered. The programs that this
/// process starts inherit the lock. So if dlrun is killed while its sbatch runs, other processes
/// still see that the submission is in progress. A process that deletes the run holds the lock,
/// too.
class SubmissionLock {
 public:
  /// Takes the lock. Returns a lock without effect if the file system has no locks, if another
  /// process holds the lock, or if the file cannot be created.
  [[nodiscard]] static SubmissionLock take_if_free(const std::filesystem::path& run);
  /// Takes the lock. Fails with kRefused if another process holds it, and with kIo if its file
  /// cannot be created. On a file system without locks, returns a lock without effect.
  [[nodiscard]] static Result<SubmissionLock> take(const std::filesystem::path& run);
  /// Does what take() does, for the open directory of a run. run: the run's name for the message.
  [[nodiscard]] static Result<SubmissionLock> take_in(int directory, std::string_view run);
  SubmissionLock(SubmissionLock&&) = default;
  SubmissionLock& operator=(SubmissionLock&&) = delete;
  /// Removes the lock's file if this process holds the lock. Removes it from the directory in which
  /// it was created, even if another directory has the path of the run by now.
  ~SubmissionLock();

 private:
  SubmissionLock(UniqueFd directory, UniqueFd fd)
      : directory_(std::move(directory)), fd_(std::move(fd)) {}
  UniqueFd directory_;
  UniqueFd fd_;  ///< not open if take_if_free() could not take the lock
};

/// Returns true if a process holds the run's lock. Call it before looking up the job; otherwise a
/// submission that finishes meanwhile looks lost.
[[nodiscard]] bool is_being_submitted(const std::filesystem::path& run);

/// The job that claimed the run, and the job's token.
struct Claim {
  JobId job;
  std::string token;
  std::string log;                 ///< path of the job's output on the job's node; may be empty
  std::optional<Owner> foreign{};  ///< the other user who owns the claim; nullopt: this user does
};
/// Reads the run's claim. Returns nullopt if there is none. Fails with kInvalid if it is damaged.
[[nodiscard]] Result<std::optional<Claim>> read_claim(const std::filesystem::path& run);

/// Finds out the outcome of an intent: from the claim, else by asking the executor. If the job
/// exists, writes the submission as kSubmitted to the disk and returns it. Returns the submission
/// unchanged if there is no such job, if the state is not kIntent, or if there is no token yet.
/// Fails with kUnavailable if the executor does not answer.
[[nodiscard]] Result<Submission> find_and_record_outcome(const std::filesystem::path& run,
                                                         Submission submission, Executor& executor);

}  // namespace dlrun
