#pragma once
// Determines a run's state. If the run's record has an end, that end decides, otherwise Slurm's
// answer.

#include <array>
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
#include "launcher/runs/follow_ups.h"
#include "launcher/runs/index.h"
#include "launcher/runs/journal.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/run_record.h"
#include "launcher/spec/known_servers.h"

namespace dlrun {

enum class RunState {
  kNotSubmitted,  ///< the run has files but no job, for example after an interrupted submission
  kRefused,       ///< Slurm refused the job
  kPending,
  kRunning,
  kCompleted,
  kFailed,
  kCancelled,
  kTimeout,  ///< Slurm ended the job at its time limit
  kUnknown,  ///< neither the run's files nor Slurm show the state
};

/// All states, in the order in which messages list them.
inline constexpr std::array kRunStates = {
    RunState::kNotSubmitted, RunState::kRefused,   RunState::kPending,
    RunState::kRunning,      RunState::kCompleted, RunState::kFailed,
    RunState::kCancelled,    RunState::kTimeout,   RunState::kUnknown};

/// Returns the state's name in all output: not_submitted, refused, pending, running, completed,
/// failed, cancelled, timeout, unknown.
[[nodiscard]] std::string_view word(RunState state);
/// Returns the state with this name; nullopt if there is none.
[[nodiscard]] std::optional<RunState> run_state_of(std::string_view name);
/// Returns true unless the state is kPending or kRunning. kUnknown counts as inactive. A run whose
/// state may be outdated (RunStatus::may_be_outdated) may still have a job: is_over() is the
/// stronger test. See also is_submission_open().
[[nodiscard]] bool is_inactive(RunState state);

/// All facts from the run's files and from the executor: the input of assess().
struct RunFacts {
  std::optional<Submission> submission;
  std::optional<Claim> claim;
  std::vector<FollowUp> follow_ups;  ///< the later jobs of the run's chain (retry.chain)
  /// The job of the chain on which the state depends: the first job that runs or waits. If none
  /// does, the job that claimed the run last, or the next job if the claiming job has handed the
  /// run over to it. nullopt: Slurm was not asked, or knows none of the jobs.
  std::optional<JobId> chain_job;
  RunRecord record;
  std::optional<JobReport> report;  ///< nullopt: no query, or the executor does not know the job
  /// Why the executor did not answer or could not be asked; empty: no query, or an answer.
  std::string why_unreachable;
  std::string why_no_accounting;    ///< why Slurm's accounting did not answer
  bool is_being_submitted = false;  ///< SubmissionLock was held just before the job was looked up
  /// The run's directory exists, and no file shows that a job was submitted.
  bool is_only_prepared = false;
  /// `dlrun cancel` has cancelled the run or its array (cancel_mark.h). False if the record
  /// has an end that is no cancellation.
  bool has_cancel_mark = false;
  bool has_answer = false;  ///< the executor has answered a query about the job
  /// The other user who owns the run. dlrun then reads only the run's files.
  std::optional<Owner> foreign;
};

/// The number of a sweep's points in each state.
struct SweepCounts {
  std::size_t points = 0;
  std::size_t pending = 0, running = 0, completed = 0, cancelled = 0;
  std::size_t failed = 0, timeout = 0, refused = 0;
  std::size_t not_submitted = 0, unknown = 0;
  /// Returns the number of points that failed, timed out or were refused.
  [[nodiscard]] std::size_t unsuccessful() const { return failed + timeout + refused; }
};

/// A run's state, and the facts that it follows from.
struct RunStatus {
  RunState state = RunState::kUnknown;
  std::string detail;  ///< a sentence for the user: the reason, or the current activity
  bool detail_shows_failed_rank = false;  ///< the rank that failed first is in `detail`
  /// The state is the last known one, because the executor did not answer or the run is foreign.
  /// JSON output has this member as `last_known`.
  bool may_be_outdated = false;
  JobId job;  ///< for a sweep the first one of `jobs`
  /// Only for a sweep: the ids of the jobs of the points' latest runs, in the order of the points.
  /// The id of an array's job appears once; it does not appear if each point of the array was
  /// submitted again.
  std::vector<std::string> jobs;
  RunFacts facts;
  /// Set only for a sweep. The `facts` of a sweep have only `why_unreachable` and `foreign`.
  std::optional<SweepCounts> sweep;
};

/// Returns true if the executor did not answer a query about the run, or could not be asked.
/// Returns false for a foreign run, for which dlrun sends no query.
[[nodiscard]] bool is_unreachable(const RunStatus& status);

/// Returns true if Slurm may have, or may soon get, a job of the run that is not in the run's
/// files: another process is submitting the run, or it is unknown whether Slurm accepted the job.
/// Submitting the run again could then run the job twice.
[[nodiscard]] bool is_submission_open(const RunStatus& status);

/// Returns true if the run is known to have ended or to have been refused.
[[nodiscard]] bool is_over(const RunStatus& status);

/// Returns the counts as text: "6 points: 4 completed, 1 failed, 1 running".
[[nodiscard]] std::string describe(const SweepCounts& counts);

/// Returns the status of a sweep. Its state follows from the first rule that fits: pending if all
/// points are; running if a point is running or pending; completed if all points are; failed if a
/// point has failed, timed out or was refused; cancelled if a point was; unknown if a point is;
/// otherwise not_submitted. A point that cannot be read is unknown.
[[nodiscard]] RunStatus sum_up_points(const std::vector<Result<RunStatus>>& points);

/// Returns the status that follows from the facts.
[[nodiscard]] RunStatus assess(RunFacts facts);

/// Returns the failure of a rank that explains why the run has ended. Returns nullptr if no rank
/// has failed, or if the run was cancelled and its ranks ended after a signal to lead.
[[nodiscard]] const RankFailure* failure_behind_end(const RunStatus& status);

/// Returns the failure as text: "rank 3 on n2 was ended by SIGKILL", "rank 0 on n1 ended with code
/// 2 (train.py: ...)".
[[nodiscard]] std::string describe(const RankFailure& failure);

/// Returns the job whose id is in the run's files; nullopt if they have no job id. For a chain of
/// jobs, returns the job that claimed the run last, or the first job if none has claimed the run.
[[nodiscard]] std::optional<JobId> job_named_by_files(const RunFacts& facts);
/// Returns facts.chain_job, else job_named_by_files().
[[nodiscard]] std::optional<JobId> job_of(const RunFacts& facts);
/// Returns the PID namespace of a run on this machine; empty if the files do not have it.
[[nodiscard]] std::string_view pid_namespace_of(const RunFacts& facts);
/// Returns the dependency with which dlrun submitted the job, such as "afterok:12"; empty if there
/// was none. A #SBATCH line of the script may still have one. For a chain of jobs, returns the
/// dependency of the job that job_of() returns.
[[nodiscard]] std::string submitted_dependency(const RunFacts& facts);
/// Returns true if the run was cancelled, its job had a dependency, and the run's files show no
/// start. The result may be wrong for a script that dlrun did not render, because such a script
/// records no start.
[[nodiscard]] bool was_cancelled_while_waiting(const RunStatus& status);
/// Returns true if `dlrun cancel` has cancelled the run, or the array of its sweep, and Slurm is
/// still ending the processes of the job. This takes Slurm some seconds.
[[nodiscard]] bool is_ending_after_cancel(const RunStatus& status);
/// Returns the id of the Slurm job in whose allocation the run was started (`submit --in`,
/// `run --here`); empty for other runs, and until lead has claimed the run.
[[nodiscard]] std::string enclosing_job_of(const RunFacts& facts);
/// Returns the jobs of the run's chain that Slurm has accepted, in order; none if the run has no
/// chain.
[[nodiscard]] std::vector<JobId> chain_jobs_of(const RunFacts& facts);
/// Returns the token with which the run's job was submitted; empty if the files have none.
[[nodiscard]] std::string_view token_of(const RunFacts& facts);

/// Whether the inspector also asks Slurm about runs whose record has an end. The inspector never
/// asks about such a run if it ran on this machine.
enum class EndedRuns {
  kTrustRecord,
  /// For deletions, because Slurm may have queued the job again. The answer is in facts.report. The
  /// state is still that of the record.
  kAskExecutor,
};

/// Determines the states of runs. One query for each executor and cluster serves all runs of a
/// call, and its failure concerns only the runs of that cluster. More queries follow only for
/// chains (retry.chain) whose first jobs have ended. Implemented in run_inspector.cc.
class RunInspector {
 public:
  /// servers: the slurmrestd servers that may be asked. dlrun does not ask any other server that a
  /// run's files contain.
  explicit RunInspector(const Env& env, KnownServers servers = {});

  /// Reads the run's files, finds out the outcome of an interrupted submission, and queries the
  /// executor unless the files show that the run is over. Fails with kNotFound if the directory is
  /// gone or is no run, and with kInvalid if one of its files is damaged. An executor that does not
  /// answer is reported in the result, not as an error. For a foreign run, only reads files. For
  /// the user's own run, also writes the end that a killed lead could not write, and removes the
  /// secrets of a run that is over. max_age: accepts an answer that another process of the user got
  /// at most this long ago.
  [[nodiscard]] Result<RunStatus> inspect(const std::filesystem::path& run,
                                          std::chrono::milliseconds max_age = {});
  /// Inspects many runs. The result has an error for a run that cannot be read. The status of a
  /// sweep sums up its points; the latest resubmission of a point replaces the point. If it is
  /// unknown whether Slurm accepted an array, one query looks for the array on behalf of all its
  /// points.
  [[nodiscard]] std::vector<Result<RunStatus>> inspect_all(
      std::span<const std::filesystem::path> runs, std::chrono::milliseconds max_age = {},
      EndedRuns ended_runs = EndedRuns::kTrustRecord);

  /// Reads the run's files. Starts no process and uses no network. Fails as inspect() does.
  [[nodiscard]] static Result<RunFacts> read_facts(const std::filesystem::path& run);

  /// Returns the executor through which the run was submitted; for a foreign run, an executor
  /// that fails every call. The reference is valid until the next call.
  [[nodiscard]] Executor& executor_of(const RunFacts& facts);
  /// Returns the executor for a new job: the slurmrestd, or Slurm's own commands if server is
  /// empty. If the configuration does not list the server, every call fails with kInvalid and
  /// nothing is sent.
  [[nodiscard]] Executor& executor_of(const std::optional<RestServer>& server);

 private:
  /// Does the work of inspect_all() for runs that are no sweeps.
  [[nodiscard]] std::vector<Result<RunStatus>> inspect_single_runs(
      std::span<const std::filesystem::path> runs, std::chrono::milliseconds max_age,
      EndedRuns ended_runs);
  /// Calls find_and_record_outcome() for interrupted submissions of follow-up jobs. Sets
  /// facts.why_unreachable if Slurm does not answer.
  void find_and_record_follow_up_outcomes(const std::filesystem::path& run, RunFacts& facts);

  Env env_;
  KnownServers known_servers_;
  std::unique_ptr<Executor> slurm_;  ///< null until a run needs it
  std::unique_ptr<Executor> local_, for_foreign_run_;
  std::vector<std::pair<RestServer, std::unique_ptr<Executor>>> servers_;
};

}  // namespace dlrun
