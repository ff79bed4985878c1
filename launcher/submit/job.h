#pragma once
// A job: the script, the settings that sbatch gets besides it, and the facts that its record needs.
// job_of_script_text() fills the fields that all jobs have. job_of_experiment() and job_of_file()
// call it and add the fields of a spec or a script; resubmission.cc calls it for an earlier run.

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/executors/executor.h"
#include "launcher/runs/secrets_file.h"
#include "launcher/submit/dependencies.h"
#include "launcher/submit/experiment.h"
#include "launcher/submit/script_file.h"

namespace dlrun {

/// A job's position in the chain of a run's jobs (retry.chain).
struct ChainPosition {
  std::int64_t job_count = 0;  ///< number of jobs that the submission queues for the run
  std::int64_t number = 0;     ///< the number of this job in the chain, from 0
  // run_token and first_job are set for a follow-up job only: a job after the first one.
  std::string run_token;  ///< the token of the run; the job's comment has a token of its own
  std::string first_job;  ///< the id of the first job, to whose log all jobs write
  [[nodiscard]] bool is_follow_up() const { return number > 0; }
};

/// The settings of a submission, besides the text of the script. The file submit.json (not the
/// journal, submission.json) stores the settings that all jobs of a sweep or a chain share: all
/// fields except chain, is_array, is_packed, array_tasks and secrets.
struct SbatchSettings {
  std::optional<RestServer> server;     ///< the slurmrestd to submit through; sbatch if empty
  std::optional<std::string> clusters;  ///< --clusters (-M)
  /// The user's own output file, with an absolute path. nullopt: a file in the run's directory,
  /// such as slurm-JOBID.out.
  std::optional<std::string> log_pattern;
  /// The file for standard error, with an absolute path. nullopt: the output file also gets
  /// the errors.
  std::optional<std::string> error_pattern;
  std::filesystem::path submit_directory;  ///< the folder from which sbatch is called
  std::optional<std::string> comment;      ///< the user's --comment; added after dlrun's own text
  /// The job's name for a script without --job-name; sbatch would use the file's name, job.sh.
  std::optional<std::string> job_name;
  std::optional<std::string> chdir;       ///< the folder where the job starts; overrides the script
  std::optional<std::string> dependency;  ///< sbatch's --dependency
  /// sbatch gets --kill-on-invalid-dep, which the script does not have: Slurm cancels the job if
  /// the dependency can no longer be fulfilled.
  bool is_cancelled_on_invalid_dependency = false;
  /// sbatch's --exclude, if health.known_bad adds nodes to it
  std::optional<std::string> exclude;
  std::optional<ChainPosition> chain;  ///< nullopt: the run has one job
  bool is_array = false;               ///< the job is an array of a sweep
  bool is_packed = false;              ///< each task of the array runs several points (sweep.pack)
  std::optional<std::string> array_tasks;  ///< sbatch's --array; overrides the script
  /// The secrets. A file of the run holds them; the job's environment does not.
  std::vector<SecretValue> secrets;
};

/// A job to submit.
struct Job {
  enum class Source {
    kSpec,    ///< rendered from a spec
    kScript,  ///< a script that was written or edited by hand
    kRun,     ///< the script of an earlier run
  };
  Source source = Source::kSpec;
  std::string name, runs_dir;
  std::string script;       ///< the text of the script
  std::string file;         ///< the name of the spec's or the script's file, for messages
  ScriptRequests requests;  ///< what the script asks Slurm for
  SbatchSettings settings;
  std::vector<PriorRun> prior_runs;  ///< the runs that the job waits for; check_job() sets them
  std::string image;                 ///< the container's image, for the record; may be empty
  std::filesystem::path code_dir;    ///< the folder of the code, which code.snapshot copies
  std::optional<KnownBadSettings> known_bad;  ///< the file with the nodes that the job avoids
  /// kSpec: the spec. kScript: the spec that the script carries. kRun: the recorded spec, if the
  /// script alone does not describe the whole job.
  std::optional<Experiment> experiment;
  std::filesystem::path earlier_run;  ///< kRun: the directory of the run that is submitted again

  /// True if the script was not rendered for this submission.
  [[nodiscard]] bool has_given_script() const { return source != Source::kSpec; }
  [[nodiscard]] bool is_sweep() const {
    return source != Source::kRun && experiment && experiment->is_sweep();
  }
  /// True for a sweep whose points a search program chooses (sweep.ask).
  [[nodiscard]] bool is_search() const {
    return is_sweep() && experiment->loaded.spec.sweep.is_search();
  }
};

/// Returns a job with the fields that jobs of all sources have. requests: the script's requests,
/// read from its lines or taken from its plan. submit_directory: the folder from which sbatch is
/// called.
[[nodiscard]] Job job_of_script_text(Job::Source source, std::string script,
                                     ScriptRequests requests,
                                     const std::filesystem::path& submit_directory);

/// Returns the job of an experiment. script: the script that was rendered from the plan.
[[nodiscard]] Job job_of_experiment(Experiment experiment, std::string script);

/// Reads a file, which is a spec or a script, and returns its job. A spec is planned and rendered.
/// A script is used as it is; if it carries a spec, the spec adds the parts that a script cannot
/// express: the runs to wait for, the copy of the code, slurmrestd.
[[nodiscard]] Result<Job> job_of_file(const Context& context, Reporter& reporter,
                                      const SpecOptions& options);
/// Returns the job of a spec as job_of_file() does. Fails for a script.
[[nodiscard]] Result<Job> job_of_spec_file(const Context& context, Reporter& reporter,
                                           const SpecOptions& options);

/// Plans the arrays of a sweep, and gives the job the script of the first array. Returns nullopt
/// for a single job. asks_slurm: true asks Slurm for the largest size of an array; false reads it
/// from Slurm's configuration.
[[nodiscard]] Result<std::optional<SweepPlan>> plan_arrays(const Context& context, Job& job,
                                                           bool asks_slurm);

/// Returns the folder of the code that a spec or a script starts; provenance.json describes this
/// code.
[[nodiscard]] std::filesystem::path code_folder_of(const Context& context, const std::string& file);

/// Returns the image of the job's container; empty if an edited script no longer contains the image
/// of its spec.
[[nodiscard]] std::string image_in_script(const Experiment& experiment, std::string_view script);

/// Returns the options that sbatch gets on its command line in addition to those of the script,
/// such as the comment that identifies the job and the path of the output. Fails with kInvalid if
/// sbatch's pattern cannot express the run's path.
[[nodiscard]] Result<std::vector<std::string>> sbatch_arguments(const SbatchSettings& settings,
                                                                const std::filesystem::path& run,
                                                                const std::string& token);

/// Returns the job's environment: the submitter's, scrubbed and without secrets, plus the run and
/// the token.
[[nodiscard]] Env job_environment(const Context& context, const std::filesystem::path& run,
                                  const std::string& token,
                                  const std::vector<SecretValue>& secrets);

/// Returns the request for the executor. The script is the run's job.sh. text: the content of the
/// script, for check() and test(), which come before job.sh is written; otherwise empty.
[[nodiscard]] Result<SubmitRequest> request_to_submit(const Context& context,
                                                      const SbatchSettings& settings,
                                                      const std::filesystem::path& run,
                                                      const std::string& token,
                                                      std::string text = {});

/// Returns each option's key in the spec, such as "--hint" -> "resources.hint". Returns an empty
/// map for a script without a spec.
[[nodiscard]] std::map<std::string, std::string> keys_of_options(const Job& job);

/// Returns the request for `sbatch --test-only`: the job as it would be queued, without a run.
[[nodiscard]] SubmitRequest request_to_test(const Context& context, const SbatchSettings& settings,
                                            std::string script);

}  // namespace dlrun
