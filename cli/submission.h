#pragma once
// Submits a recorded run to Slurm exactly once.

#include <string>
#include <vector>

#include "cli/cli.h"
#include "launcher/executors/executor.h"
#include "launcher/runs/journal.h"
#include "launcher/runs/run_directory.h"
#include "launcher/runs/secrets.h"

namespace dlrun {

/// Everything that a submission adds to the recorded script.
struct SubmitPlan {
  std::optional<RestServer> server;     ///< the slurmrestd to submit through; sbatch if empty
  std::optional<std::string> clusters;  ///< --clusters (-M)
  /// The user's own output file as absolute_pattern(); otherwise slurm-JOB.out.
  std::optional<std::string> log_pattern;
  std::filesystem::path directory;     ///< the job's working directory
  std::optional<std::string> comment;  ///< the user's own --comment; it follows dlrun's
  /// The job's name for a script without --job-name; sbatch would use the file's name, job.sh.
  std::optional<std::string> job_name;
  std::optional<std::string> chdir;       ///< the folder where the job starts; overrides the script
  std::optional<std::string> dependency;  ///< sbatch's --dependency
  /// sbatch's --exclude, if health.known_bad adds nodes to it
  std::optional<std::string> exclude;
  bool is_array = false;                   ///< true if every task is a run with a log of its own
  std::optional<std::string> array_tasks;  ///< sbatch's --array; overrides the script
  /// Secrets; they are removed from the environment and travel in the run's own file.
  std::vector<SecretValue> secrets;
};

/// Returns the options for sbatch that dlrun adds to the script: the comment that identifies the
/// job, and the path of its output. Fails with kInvalid if sbatch's pattern cannot express the
/// run's path.
[[nodiscard]] Result<std::vector<std::string>> sbatch_words(const std::filesystem::path& run,
                                                            const std::string& token,
                                                            const SubmitPlan& plan);

/// Returns the job's environment: the submitter's, scrubbed and without secrets, plus the run and
/// the token.
[[nodiscard]] Env job_environment(const Cli& cli, const std::filesystem::path& run,
                                  const std::string& token,
                                  const std::vector<SecretValue>& secrets);

/// Writes a sweep's submit.json: the part of the plan that all its arrays share, without the
/// secrets. A submission that was interrupted continues with it.
[[nodiscard]] Result<> write_submit_plan(const std::filesystem::path& sweep,
                                         const SubmitPlan& plan);
[[nodiscard]] Result<SubmitPlan> read_submit_plan(const std::filesystem::path& sweep);

/// Returns the request for the executor; the script is the run's job.sh.
[[nodiscard]] Result<SubmitRequest> submit_request(const Cli& cli, const std::filesystem::path& run,
                                                   const std::string& token,
                                                   const SubmitPlan& plan);

/// The result of submit_once(). interrupted: Ctrl-C arrived during the submission, which succeeded.
struct SubmitOutcome {
  Submission submission;
  bool interrupted = false;
};

/// Submits the run once: records the intent in the run's journal, calls sbatch or slurmrestd, and
/// records the job.
///
/// If the answer is lost, looks the token up at the controller. Only if the controller knows no
/// such job, submits again, once and with the same token; should both jobs exist, the claim lets
/// only one of them run. Ctrl-C during sbatch is handled in the same way, and `interrupted` is
/// then true.
[[nodiscard]] Result<SubmitOutcome> submit_once(const Cli& cli, const RunDirectory& run,
                                                const SubmitPlan& plan, Executor& executor);

}  // namespace dlrun
