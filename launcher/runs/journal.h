#pragma once
// submission.json: the journal that makes a submission happen once. The intent and its token are on
// disk before sbatch is called; whoever finds an intent later looks the token up before anything is
// sent again.

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/files.h"
#include "common/result.h"
#include "launcher/executors/executor.h"
#include "launcher/runs/ownership.h"

namespace dlrun {

struct Submission {
  enum class State { kIntent, kSubmitted, kRefused };
  std::string token;  ///< 32 hex digits
  State state = State::kIntent;
  JobId job;  ///< cluster as queries need it (-M), kLocalCluster for a run on this machine
  std::optional<RestServer>
      server;  ///< the slurmrestd that was asked; nothing: Slurm's own commands
  std::vector<std::string>
      argv;  ///< what is or was called; for a slurmrestd the words that sbatch would have got
  std::string time;     ///< UTC, of the last change
  std::string message;  ///< kRefused: why
  std::string
      output;  ///< sbatch's pattern of the job's output where it is not slurm-JOBID.out here
  std::optional<std::int64_t>
      task;  ///< a sweep's point: what else is here is its array's, but job.id is the task's own
  std::optional<Owner> foreign;  ///< the other user who wrote the journal; nothing: the caller
};

/// The comment under which Slurm knows the submission.
[[nodiscard]] std::string comment_of(const Submission& submission);

/// A sweep's point: the journal is its array's, one folder above. Written once, before anything is
/// submitted.
[[nodiscard]] std::string journal_of_task(std::size_t task);

/// Nothing when there is no journal (a run that a script submitted by hand made). kInvalid when it
/// cannot be read as one.
[[nodiscard]] Result<std::optional<Submission>> read_submission(const std::filesystem::path& run);
[[nodiscard]] Result<> write_submission(const std::filesystem::path& run, Submission submission);

/// Held from the intent to the answer by who submits and by the programs that it starts, so that a
/// submission whose dlrun was killed is still known to be under way while its sbatch lives.
class SubmissionLock {
 public:
  /// Where the file system has no locks the lock holds nothing, and says nothing.
  [[nodiscard]] static SubmissionLock hold(const std::filesystem::path& run);
  /// The same, but kRefused where somebody else holds it.
  [[nodiscard]] static Result<SubmissionLock> take(const std::filesystem::path& run);
  SubmissionLock(SubmissionLock&&) = default;
  SubmissionLock& operator=(SubmissionLock&&) = delete;
  ~SubmissionLock();

 private:
  SubmissionLock(std::filesystem::path path, UniqueFd fd)
      : path_(std::move(path)), fd_(std::move(fd)) {}
  std::filesystem::path path_;
  UniqueFd fd_;
};

/// Whether somebody holds the run's lock. To be asked before the job is looked for: found later
/// than that, nobody knows it for good.
[[nodiscard]] bool is_being_submitted(const std::filesystem::path& run);

/// The job that claimed the run, with the token it showed.
struct Claim {
  JobId job;
  std::string token;
  std::string log;  ///< the file that its output goes to, as its node names it; may be empty
  std::optional<Owner> foreign{};  ///< the other user who wrote it; nothing: the caller
};
[[nodiscard]] Result<std::optional<Claim>> read_claim(const std::filesystem::path& run);

/// An intent whose outcome is not known is settled: by the claim, else by what the executor finds.
/// Returns the submission as it is now: kSubmitted and written down when the job exists, still
/// kIntent when nobody knows one. Fails with kUnavailable when that cannot be known now.
[[nodiscard]] Result<Submission> settle(const std::filesystem::path& run, Submission submission,
                                        Executor& executor);

}  // namespace dlrun
