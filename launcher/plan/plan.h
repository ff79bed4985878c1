#pragma once
// The plan of a job: all data that a script, an interactive shell or a local run needs. make_plan()
// reads no clock, no cluster and no files.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "launcher/spec/diagnostic_text.h"
#include "launcher/spec/load.h"
#include "launcher/spec/rest_server.h"
#include "launcher/spec/spec.h"

namespace dlrun {

/// An option of sbatch, salloc, srun, lead or the rank agent, such as "--nodes", "2", from the key
/// "resources.nodes". A flag has no value.
struct PlannedOption {
  std::string option;
  std::optional<std::string> value;
  /// The comment that the script shows beside the option: the key, site or preset that sets the
  /// option, or the reason why dlrun adds it. Empty: no comment. In plan.json the field is `key`.
  std::string comment;
  [[nodiscard]] std::string word() const { return value ? option + "=" + *value : option; }
};

/// An environment variable.
struct PlannedVariable {
  std::string name;
  std::string value;  ///< in LaunchPlan::rank_templates: a template, which the rank agent fills in
  std::string comment;  ///< as in PlannedOption
  /// True if a hook reads the variable to set up GPUs before a container starts. Inside the
  /// container, the image's own value of the variable must not be replaced.
  bool is_about_gpus = false;
  /// The layer that sets the value: the spec, the site, the preset, or dlrun itself (kDefault).
  Origin::Kind origin_kind = Origin::Kind::kPreset;
};

/// Arguments of the program's command line that belong together: the user's command, or an option
/// and its value.
struct PlannedArguments {
  std::vector<std::string> arguments;
  std::string comment;  ///< as in PlannedOption
};

/// The batch shell's work before the step.
struct Prologue {
  bool purge_modules = false;
  std::vector<std::string> use_modules, load_modules;  ///< module use, module load
  std::string module_init;  ///< file to source for `module`; empty: the script searches for it
  std::string conda_module, conda_name, venv;
  std::string uv_project;                      ///< the project's folder, absolute
  std::string pixi_project, pixi_environment;  ///< the project's folder, absolute; a name
  std::string spack;                           ///< an environment: a name, or an absolute folder
  std::string eessi;                           ///< a version
  std::vector<PlannedVariable> vars;           ///< exported byte for byte
  /// The container image in which the script looks up NVIDIA_DRIVER_CAPABILITIES. If the image is
  /// not an absolute path, the script cannot read it and requests all parts of NVIDIA's driver.
  /// nullopt: the script does not set the variable.
  std::optional<std::string> driver_capabilities_image;
  struct Folder {
    std::string path, comment;  ///< comment: as in PlannedOption
  };
  std::vector<Folder> folders_to_make;  ///< created if they are missing
  std::string setup;                    ///< environment.setup: the user's shell lines
  std::string setup_node;               ///< environment.setup_node: shell lines for every node
};

/// The requested resources, from which GPU-hours are computed. A number that Slurm chooses is
/// absent.
struct Requested {
  std::optional<std::int64_t> nodes, tasks, gpus, cpus;
  std::optional<std::int64_t> time_seconds;
};

/// Return the requested GPUs or cores times the time limit in hours; nullopt if the number or the
/// limit is absent.
[[nodiscard]] std::optional<double> gpu_hours(const Requested& requested);
[[nodiscard]] std::optional<double> core_hours(const Requested& requested);

/// A job or a run that this job waits for.
struct PlannedDependency {
  std::string type;  ///< Slurm's type of dependency: afterok, afterany, afternotok
  std::string run;   ///< a Slurm job id; or the name, id or path of a run
  std::string key;   ///< after.ok, after.any or after.notok
  /// Returns true if `run` is a Slurm job id.
  [[nodiscard]] bool is_job_id() const;
};

/// The settings of health.known_bad: the file of bad nodes that several runs share.
struct KnownBadSettings {
  std::string file;          ///< the absolute path of the file
  std::int64_t seconds = 0;  ///< how long a node is remembered
};

/// Returns the folder in which dlrun keeps the environments that it builds for a project.
[[nodiscard]] std::string environments_folder(std::string_view project);
/// Returns the link to the newest environment of a uv project. After a change of uv.lock, dlrun
/// builds a new environment and points the link to it. Running jobs keep the old environment.
[[nodiscard]] std::string uv_link(std::string_view project);
/// Returns the script that initializes a version of EESSI.
[[nodiscard]] std::string eessi_script(std::string_view version);

enum class Target { kSlurm, kLocal };

struct PlannedComponent;

/// All of dlrun's decisions about a job. render.h turns the plan into a script, plan_json() into
/// JSON.
struct LaunchPlan {
  Target target = Target::kSlurm;
  std::string name;
  std::string folder;           ///< where the job starts: slurm.chdir, else the spec's folder
  bool takes_snapshot = false;  ///< submit and run copy the source tree; the job starts in the copy
  /// The runs folder and the agent's program, absolute. `agent` is empty if launch.agent is false;
  /// the script then does the agent's work in shell.
  std::string runs_dir, agent;
  /// sbatch's options in the script's order; salloc also gets most of them.
  std::vector<PlannedOption> directives;
  std::vector<PlannedDependency> after;  ///< the spec's `after`; submit looks up the jobs of runs
  bool is_output_given = false;          ///< resources.output sets the path of the job's log
  std::optional<std::string> clusters;   ///< the value of -M in every query about the run
  std::optional<RestServer> server;      ///< the slurmrestd to submit to; nullopt: sbatch
  Prologue prologue;
  /// True if neither resources.cpus_per_task nor resources.cpus_per_gpu is set: the script divides
  /// the allocated CPUs among the tasks.
  bool shares_cpus = false;
  /// Variables that are exported before the ranks' step, for that step only.
  std::vector<PlannedVariable> step_vars;
  std::vector<PlannedOption> step;       ///< srun's options, in order
  std::vector<PlannedOption> container;  ///< those of `step` that put a task into the container
  std::string runtime;                   ///< the container's runtime; "none": no container
  /// How a task enters the container if srun's options cannot do it.
  ContainerEnterScript enter_script;
  /// Options of the rank agent: --nproc-per-node, --roles, --word TEMPLATE, and others.
  std::vector<PlannedOption> rank_options;
  /// Variables with literal values that the rank agent sets: those with values that the container's
  /// runtime would change, WANDB_*, and a component's own variables.
  std::vector<PlannedVariable> rank_vars;
  /// Variables with templates, from which the rank agent makes the values.
  std::vector<PlannedVariable> rank_templates;
  /// Names for the rank agent's --secret. A file in the run's directory holds the values.
  std::vector<SecretSource> secrets;
  /// Names of secrets that lead gets (--webhook, --mlflow-secret). The program does not get them.
  std::vector<std::string> lead_secrets;
  bool program_is_bundled = false;  ///< the program is dlrun's own and may use the agent's store
  std::vector<PlannedArguments> program;  ///< the command line of the ranks' program
  /// The job runs dlrun-trainer, as its program or for a check of health.preflight. For a job with
  /// components, see uses_trainer().
  bool needs_trainer = false;
  bool forwards_usr1 = false;  ///< checkpoint.signal_before is set
  /// Options of lead, such as --retry and --hang-after.
  std::vector<PlannedOption> lead_options;
  std::optional<KnownBadSettings> known_bad;
  std::int64_t local_ranks = 1;  ///< number of ranks that `dlrun run` starts: the tasks of one node
  Requested requested;
  /// The programs of a job with components, in the order of lead's command line. `step`,
  /// `rank_options`, `rank_templates` and `program` of the job itself are then empty; `container`,
  /// `enter_script` and `rank_vars` are those of the first component on the job's first node, where
  /// the job script runs.
  std::vector<PlannedComponent> components;
  /// sbatch's options for each part of a heterogeneous job, except the first part; empty for other
  /// jobs.
  std::vector<std::vector<PlannedOption>> later_parts;

  /// Returns all arguments of `program`, in order.
  [[nodiscard]] std::vector<std::string> program_argv() const;
  /// Returns true if the job or one of its components needs dlrun-trainer.
  [[nodiscard]] bool uses_trainer() const;
};

/// One program of a job with components.
struct PlannedComponent {
  std::string name;
  std::vector<PlannedOption> options;  ///< lead's options for the component, in order
  LaunchPlan plan;                     ///< its step, container, rank agent and program
};

/// The inputs of make_plan() that are not in the spec.
struct PlanInputs {
  std::string runs_dir;            ///< absolute
  std::string agent_path;          ///< absolute, as the nodes see it
  std::string trainer_path;        ///< absolute, beside the agent; used by the preset `trainer`
  Target target = Target::kSlurm;  ///< kLocal: one node without Slurm (`dlrun run`)
  /// The job runs in an allocation that the user already has, which may be larger than the job.
  bool uses_existing_allocation = false;
  /// The job is a rehearsal that ends after this many seconds and never restarts. 0: no rehearsal.
  std::int64_t rehearsal_s = 0;
};

/// Makes the plan, and checks what load_spec() does not check. On failure returns the problems. If
/// the first checks find problems, the later checks are not made. With Target::kLocal, keys that
/// `dlrun run` cannot follow are errors: container.image, `after`, ...
[[nodiscard]] tl::expected<LaunchPlan, std::vector<Diagnostic>> make_plan(const LoadedSpec& loaded,
                                                                          const PlanInputs& inputs);

/// Returns the run's plan.json: one JSON object with the plan's fields, ended by a newline. Leaves
/// out
/// - Prologue::folders_to_make, which follow from container.save and outputs;
/// - lead_secrets, because lead_options has their names;
/// - needs_trainer, which follows from program and rank_options;
/// - facts that only the planner and the renderer use, such as PlannedVariable::is_about_gpus.
[[nodiscard]] std::string plan_json(const LaunchPlan& plan);

/// Returns the runs folder: --runs, else $DLRUN_RUNS, else the site's folder, else
/// current_dir/runs. The path is absolute, without '.' and '..'. Ignores the site's folder if it
/// contains a variable that is not set. Returns current_dir/runs for a path with ~ if HOME is not
/// set.
[[nodiscard]] std::string runs_directory(const std::optional<std::string>& option, const Env& env,
                                         const SiteProfile& site,
                                         const std::filesystem::path& current_dir);

/// Returns the path of the file of bad nodes that the runs of a runs folder share by default. A run
/// with health.known_bad.file uses that file instead.
[[nodiscard]] std::string known_bad_file_in(std::string_view runs_dir);

/// Returns the absolute folder in which the job's commands start: slurm.chdir, else the spec's
/// folder.
[[nodiscard]] std::string start_folder(const LoadedSpec& loaded);

/// Returns a problem for each file or folder that the job needs and that is missing on this machine
/// or has the wrong kind: mount sources, environments, the image, the sources of stage, the program
/// and its script. Most problems are warnings, because a file may exist only on the nodes. A
/// missing source of stage is an error: stage copies from shared folders, and this machine
/// sees these folders.
[[nodiscard]] std::vector<Diagnostic> check_files(const LoadedSpec& loaded);

}  // namespace dlrun
