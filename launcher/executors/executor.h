#pragma once
// The seam between deciding and acting: whoever starts a job, asks about it and ends it.

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
#include "launcher/spec/job_id.h"
#include "launcher/spec/rest_server.h"

namespace dlrun {

enum class JobPhase { kPending, kRunning, kEnded };

/// What an executor says of one job.
struct JobReport {
  JobId job;
  JobPhase phase = JobPhase::kPending;
  std::string state;   ///< the executor's own word: PENDING, RUNNING, TIMEOUT, OUT_OF_MEMORY ...
  std::string reason;  ///< why it is pending, or ended so; empty where there is none
  std::string nodes;   ///< compressed node list; empty while pending
  std::string start;   ///< when it started or is expected to; empty where unknown
  std::string comment;
  std::optional<int> exit_code;  ///< the batch script's, once ended and where it is known
  int signal = 0;                ///< the signal that ended the script, 0 for none
};

struct QueryAnswer {
  std::vector<JobReport> reports;  ///< jobs that nobody knows any more are left out
  std::string
      accounting;  ///< why accounting could not be asked for the missing ones; empty where it could
};

struct SubmitRequest {
  std::filesystem::path script;  ///< absolute; what submit() needs
  std::string script_text;  ///< what check() and test() need: nothing has to be on disk for them
  std::vector<std::string> options;  ///< words of sbatch's command line, before the script
  std::filesystem::path directory;   ///< the job's working directory
  Env env;                           ///< the job's whole environment
};

/// Every call may block on the network, for a bounded time.
class Executor {
 public:
  Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  virtual ~Executor() = default;

  /// What can be known to be in the way before anything is recorded or sent. Starts nothing.
  [[nodiscard]] virtual Result<> check(const SubmitRequest& request) = 0;

  /// Starts a job. kRefused: it was not taken, in the executor's own words. kUnavailable, kTimeout,
  /// kInterrupted: it is not known whether the job was taken; find() tells.
  [[nodiscard]] virtual Result<JobId> submit(const SubmitRequest& request) = 0;

  /// Would submit() be taken? What the executor says about it: the expected start, for one.
  [[nodiscard]] virtual Result<std::string> test(const SubmitRequest& request) = 0;

  /// The job whose comment is, or begins with the word, `comment`, if there is one. kUnavailable
  /// when that cannot be known now.
  [[nodiscard]] Result<std::optional<JobId>> find(std::string_view comment,
                                                  const std::string& cluster);

  /// An answer that another of the user's processes got at most max_age ago will do; 0: ask now.
  [[nodiscard]] Result<QueryAnswer> query(std::span<const JobId> jobs,
                                          std::chrono::milliseconds max_age);

  /// Asks for the job's end; does not wait for it. token: the run's, as it was submitted; a job on
  /// this machine is ended only where its process was started with that token.
  [[nodiscard]] Result<> cancel(const JobId& job, std::string_view token);

 private:
  // The three above call these once the cluster's name and the ids have passed check_job(). Ids
  // come from files, and here they become words of a command line, parts of a URL, or the target of
  // a signal.
  [[nodiscard]] virtual Result<std::optional<JobId>> do_find(std::string_view comment,
                                                             const std::string& cluster) = 0;
  [[nodiscard]] virtual Result<QueryAnswer> do_query(std::span<const JobId> jobs,
                                                     std::chrono::milliseconds max_age) = 0;
  [[nodiscard]] virtual Result<> do_cancel(const JobId& job, std::string_view token) = 0;
};

/// Drives Slurm through its own commands; env is the submitter's, not scrubbed.
[[nodiscard]] std::unique_ptr<Executor> make_slurm_cli(const Env& env);

/// Drives Slurm through a slurmrestd; env is the submitter's.
[[nodiscard]] std::unique_ptr<Executor> make_slurmrestd(const Env& env, RestServer server);

/// Jobs on this machine.
[[nodiscard]] std::unique_ptr<Executor> make_local(const Env& env);

}  // namespace dlrun
