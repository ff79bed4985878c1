#pragma once
// A recorded run becomes a job, exactly once.

#include <string>
#include <vector>

#include "cli/cli.h"
#include "launcher/executors/executor.h"
#include "launcher/runs/journal.h"
#include "launcher/runs/run_directory.h"
#include "launcher/runs/secrets.h"

namespace dlrun {

struct SubmitPlan {
  std::optional<RestServer> server;     ///< submit through it
  std::optional<std::string> clusters;  ///< -M
  std::optional<std::string>
      log_pattern;  ///< the user's own output file, absolute_pattern(); else slurm-JOB.out
  std::filesystem::path directory;     ///< the job's working directory
  std::optional<std::string> comment;  ///< the user's own, kept behind ours
  std::optional<std::string>
      job_name;  ///< of a script that gives none: sbatch would take its file's, job.sh
  std::optional<std::string> chdir;  ///< where the job starts, in place of what the script says
  std::optional<std::string> dependency;  ///< sbatch's, where runs are waited for
  std::optional<std::string>
      exclude;            ///< sbatch's --exclude, where health.known_bad adds to the script's
  bool is_array = false;  ///< every task has a run, and a log, of its own
  std::optional<std::string> array_tasks;  ///< sbatch's --array, in place of what the script says
  std::vector<SecretValue> secrets;  ///< leave the environment and travel in the run's own file
};

/// The words for sbatch that dlrun adds to the script: the comment that finds the job again, and
/// where its output goes. Fails with kInvalid for a run path that sbatch's pattern cannot express.
[[nodiscard]] Result<std::vector<std::string>> sbatch_words(const std::filesystem::path& run,
                                                            const std::string& token,
                                                            const SubmitPlan& plan);

/// The job's environment: the submitter's, scrubbed, without secrets, with the run and the token.
[[nodiscard]] Env job_environment(const Cli& cli, const std::filesystem::path& run,
                                  const std::string& token,
                                  const std::vector<SecretValue>& secrets);

/// A sweep's submit.json: all of a plan that its arrays share, but the secrets, so that a
/// submission that ended half-way goes on as it began.
[[nodiscard]] Result<> write_submit_plan(const std::filesystem::path& sweep,
                                         const SubmitPlan& plan);
[[nodiscard]] Result<SubmitPlan> read_submit_plan(const std::filesystem::path& sweep);

/// What the executor is asked to submit; the script is taken from the run.
[[nodiscard]] Result<SubmitRequest> submit_request(const Cli& cli, const std::filesystem::path& run,
                                                   const std::string& token,
                                                   const SubmitPlan& plan);

/// Writes the intent, calls sbatch or slurmrestd, writes the job. When sbatch's answer is lost the
/// token is looked up, and only where the controller knows no such job is it sent again, once and
/// with the same token (the claim lets only one of two run). Ctrl-C during sbatch is settled in the
/// same way; interrupted says that it happened.
struct SubmitOutcome {
  Submission submission;
  bool interrupted = false;
};
[[nodiscard]] Result<SubmitOutcome> submit_once(const Cli& cli, const RunDirectory& run,
                                                const SubmitPlan& plan, Executor& executor);

}  // namespace dlrun
