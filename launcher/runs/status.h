#pragma once
// What has become of a run: its own record first, then what Slurm says, and never a guess.

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "common/result.h"
#include "launcher/executors/executor.h"
#include "launcher/runs/events.h"
#include "launcher/runs/index.h"
#include "launcher/runs/journal.h"
#include "launcher/runs/ownership.h"
#include "launcher/spec/known_servers.h"

namespace dlrun {

enum class RunState {
  kNotSubmitted,  ///< the submission was interrupted, and no job of it is known
  kRefused,       ///< Slurm said no
  kPending,
  kRunning,
  kCompleted,
  kFailed,
  kCancelled,
  kTimeout,  ///< Slurm ended it at its time limit
  kUnknown,  ///< nobody who is left knows
};

/// The word in every output: not_submitted, refused, pending, running, completed, failed,
/// cancelled, timeout, unknown.
[[nodiscard]] std::string_view word(RunState state);
/// True for states that no waiting will change.
[[nodiscard]] bool is_final(RunState state);

/// All that is known from files and from the executor; what assess() decides by.
struct RunFacts {
  std::optional<Submission> submission;
  std::optional<Claim> claim;
  RunRecord record;
  std::optional<JobReport> report;  ///< nothing: not asked, or nobody knows the job
  std::string unreachable;  ///< why the controller did not answer; empty: it did, or was not asked
  std::string accounting;   ///< why accounting did not answer
  bool is_being_submitted = false;  ///< somebody was at it before the job was looked for
  bool is_recorded_only =
      false;                   ///< its directory is there, and nothing says that anything was sent
  bool was_cancelled = false;  ///< `dlrun cancel` ended it, or its array, before it started
  bool was_asked = false;      ///< the executor was asked for the job and answered
  std::optional<Owner> foreign;  ///< the other user whose run it is; then its files alone are known
};

/// How many points of a sweep are in which state.
struct SweepCounts {
  std::size_t points = 0;
  std::size_t pending = 0, running = 0, completed = 0, failed = 0, cancelled = 0;
  std::size_t not_submitted = 0, unknown = 0;  ///< failed holds timeout and refused too
};

struct RunStatus {
  RunState state = RunState::kUnknown;
  std::string detail;  ///< a sentence for people: why, or what is going on
  bool is_last_known =
      false;  ///< the controller is unreachable, or not asked for a foreign run: known before
  JobId job;  ///< of a sweep: its first array's
  RunFacts facts;
  std::optional<SweepCounts> sweep;  ///< of a sweep; then facts say nothing
};

/// The controller was to be asked and did not answer; of a foreign run it is not asked.
[[nodiscard]] bool is_unreachable(const RunStatus& status);

/// Known to have ended, or been refused; not guessed.
[[nodiscard]] bool is_over(const RunStatus& status);

/// "6 points: 4 completed, 1 failed, 1 running"
[[nodiscard]] std::string describe(const SweepCounts& counts);

/// What its points' states make a sweep: running while some have ended and others not; completed
/// where all are; failed where one is, once none goes on.
[[nodiscard]] RunStatus sum_up_points(const std::vector<Result<RunStatus>>& points);

[[nodiscard]] RunStatus assess(RunFacts facts);

/// "rank 3 on n2 was ended by SIGKILL", "rank 0 on n1 ended with code 2 (train.py: ...)"
[[nodiscard]] std::string describe(const RankFailure& failure);

/// The job that the run's files name; nothing before it is known.
[[nodiscard]] std::optional<JobId> job_of(const RunFacts& facts);
/// The token that the run's job was started with; empty where its files name none.
[[nodiscard]] std::string_view token_of(const RunFacts& facts);

/// Asks about runs. One query serves all runs of a call.
class RunInspector {
 public:
  /// servers: those that a run may have been submitted through. A run that names another is not
  /// asked about.
  explicit RunInspector(const Env& env, KnownServers servers = {});

  /// Reads the run's files, settles an open submission, asks the executor where the files do not
  /// say that the run is over. An executor that cannot be asked is part of the answer, not an
  /// error. Of a foreign run only the files are read. max_age: how old the executor's answer may
  /// be, when others of the user's processes ask as well.
  [[nodiscard]] Result<RunStatus> inspect(const std::filesystem::path& run,
                                          std::chrono::milliseconds max_age = {});
  /// The same for many; one that cannot be read has its own error. A sweep is the sum of its
  /// points, each the last run that it was submitted again as; an array's outcome is settled once
  /// for all its points.
  [[nodiscard]] std::vector<Result<RunStatus>> inspect_all(
      std::span<const std::filesystem::path> runs, std::chrono::milliseconds max_age = {});

  /// Only what the files say: no process, no network.
  [[nodiscard]] static Result<RunFacts> read_facts(const std::filesystem::path& run);

  /// Returns the executor that the run was submitted through. For a foreign run it is one whose
  /// every call fails. The reference is valid until the next call.
  [[nodiscard]] Executor& executor_of(const RunFacts& facts);
  /// Returns the executor for a new job: the slurmrestd, or Slurm's own commands where server is
  /// empty. For a server that the configuration does not list every call fails with kInvalid, and
  /// nothing is sent.
  [[nodiscard]] Executor& executor_of(const std::optional<RestServer>& server);

 private:
  [[nodiscard]] std::vector<Result<RunStatus>> inspect_plain(
      std::span<const std::filesystem::path> runs, std::chrono::milliseconds max_age);

  Env env_;
  KnownServers known_servers_;
  std::unique_ptr<Executor> slurm_, local_, foreign_;
  std::vector<std::pair<RestServer, std::unique_ptr<Executor>>> servers_;
};

}  // namespace dlrun
