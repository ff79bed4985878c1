#pragma once
// The interface that starts jobs in Slurm, and queries and ends jobs in Slurm or on this machine.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "common/job_id.h"
#include "common/result.h"
#include "launcher/spec/rest_server.h"

namespace dlrun {

enum class JobPhase { kPending, kRunning, kEnded };

/// An executor's report on one job.
struct JobReport {
  JobId job;
  JobPhase phase = JobPhase::kPending;
  std::string state;   ///< the executor's name of the state: PENDING, RUNNING, OUT_OF_MEMORY ...
  std::string reason;  ///< why the job is pending or ended; empty if there is no reason
  /// The dependencies that can no longer be fulfilled, such as "afterok:12". Empty if there are
  /// none, or if Slurm does not name them.
  std::vector<std::string> failed_dependencies;
  std::string nodes;  ///< compressed node list; empty while pending
  /// For a heterogeneous job: the number of each part, and the part's node list. Empty for other
  /// jobs.
  std::map<std::int64_t, std::string> nodes_of_parts;
  /// The start time, or the expected start time of a pending job: local time without a zone, such
  /// as 2026-11-22T03:00:00. Empty if unknown.
  std::string start;
  std::string comment;  ///< the job's comment in Slurm, which contains dlrun's token
  /// The batch script's exit code; nullopt: the script still runs, or the code is not known.
  std::optional<int> exit_code;
  int signal = 0;  ///< the signal that ended the script, 0: none
};

/// Returns the reason and the failed dependencies: "DependencyNeverSatisfied: afterok:12". Returns
/// "" if there is no reason.
[[nodiscard]] std::string reason_text(const JobReport& report);

/// The answer to a query about several jobs.
struct QueryAnswer {
  std::vector<JobReport> reports;  ///< lacks the jobs that the executor does not know any more
  /// Why accounting did not answer about the missing jobs; empty if it answered. Has no meaning if
  /// no job is missing.
  std::string why_no_accounting;
};

/// A job to submit.
struct SubmitRequest {
  std::filesystem::path script;  ///< absolute; used by submit()
  std::string script_text;  ///< the script's text; used by check() and test(), which need no file
  std::vector<std::string> options;  ///< sbatch's arguments before the script
  std::filesystem::path directory;   ///< the folder from which sbatch is called
  Env env;                           ///< the job's whole environment
  /// For messages: each option's key in the spec, such as "--hint" -> "resources.hint".
  std::map<std::string, std::string> keys_of_options;
};

/// Starts, queries and ends jobs. An executor for jobs on this machine starts none: see
/// make_local(). Every call may block on the network, for a bounded time.
class Executor {
 public:
  Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  virtual ~Executor() = default;

  /// Checks whether this executor can send the request at all: sbatch exists, or slurmrestd is
  /// ready and its API can express the options. Does not ask Slurm about the job: test() does.
  [[nodiscard]] virtual Result<> check(const SubmitRequest& request) = 0;

  /// Starts a job. Fails with kRefused and the executor's message if the job was not accepted.
  /// After kUnavailable, kTimeout and kInterrupted, and after an unconfirmed refusal
  /// (Error::is_unconfirmed), the job may have been accepted; call find().
  [[nodiscard]] virtual Result<JobId> submit(const SubmitRequest& request) = 0;

  /// Asks whether submit() would succeed. Returns the executor's answer, such as the expected
  /// start.
  [[nodiscard]] virtual Result<std::string> test(const SubmitRequest& request) = 0;

  /// Finds the job whose comment is `comment`, or `comment` followed by a space and more text.
  /// Returns nullopt if no job has such a comment. Fails with kUnavailable if the executor does not
  /// answer, and with kInvalid if `cluster` cannot be the name of a cluster.
  [[nodiscard]] Result<std::optional<JobId>> find(std::string_view comment,
                                                  const std::string& cluster);

  /// Queries jobs. Accepts an answer that another process of the user got at most max_age ago. If
  /// max_age is 0, always queries.
  [[nodiscard]] Result<QueryAnswer> query(std::span<const JobId> jobs,
                                          std::chrono::milliseconds max_age);

  /// Requests the job's end and does not wait for it. `token` is the token of the run's submission:
  /// a job on this machine is ended only if its process was started with this token. Fails with
  /// kNotFound if the executor does not know the job any more, or if the process of a job on this
  /// machine has ended, runs on another host or does not have the token.
  [[nodiscard]] Result<> cancel(const JobId& job, std::string_view token);

 private:
  // find() calls do_find() after it has checked the cluster's name. query() and cancel() call the
  // other two after they have checked the ids of the jobs. Names and ids come from files; here
  // they become arguments of a command, parts of a URL, or the target of a signal.
  [[nodiscard]] virtual Result<std::optional<JobId>> do_find(std::string_view comment,
                                                             const std::string& cluster) = 0;
  [[nodiscard]] virtual Result<QueryAnswer> do_query(std::span<const JobId> jobs,
                                                     std::chrono::milliseconds max_age) = 0;
  [[nodiscard]] virtual Result<> do_cancel(const JobId& job, std::string_view token) = 0;
};

/// Makes an executor that calls Slurm's commands. env: the user's whole environment; the executor
/// removes the variables that must not reach Slurm (scrub.h).
[[nodiscard]] std::unique_ptr<Executor> make_slurm_cli(const Env& env);

/// Makes an executor that calls a slurmrestd. env: the user's whole environment.
[[nodiscard]] std::unique_ptr<Executor> make_slurmrestd(const Env& env, RestServer server);

/// Makes an executor that queries and ends jobs on this machine. It starts none, because `dlrun
/// run` starts such jobs itself: submit() always fails with kUsage. check() and test() always
/// succeed.
[[nodiscard]] std::unique_ptr<Executor> make_local(const Env& env);

}  // namespace dlrun
