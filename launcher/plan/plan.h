#pragma once
// The decided job: everything a script, an interactive shell or a local run needs, as data. No
// clock, no cluster, no files.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "launcher/spec/diagnostic.h"
#include "launcher/spec/load.h"
#include "launcher/spec/rest_server.h"
#include "launcher/spec/spec.h"

namespace dlrun {

/// An option of sbatch, salloc or srun: "--nodes", "2", from the key "resources.nodes". No value: a
/// flag.
struct PlannedOption {
  std::string option;
  std::optional<std::string> value;
  std::string key;  ///< empty: dlrun's own
  [[nodiscard]] std::string word() const { return value ? option + "=" + *value : option; }
};

/// A variable and what gives it its value: bytes for the script, a template for the rank agent.
struct PlannedVariable {
  std::string name, value;
  std::string key;
};

/// Words of the program's argv that belong together: the user's command, or one flag and its value.
struct PlannedWords {
  std::vector<std::string> words;
  std::string key;
};

/// What the batch shell does before the step.
struct Prologue {
  bool purge_modules = false;
  std::vector<std::string> use_modules, load_modules;  ///< module use, module load
  std::string module_init;  ///< file to source for `module`; empty: searched
  std::string conda_module, conda_name, venv;
  std::vector<PlannedVariable> vars;  ///< exported byte for byte
  /// The image whose own words about the parts of NVIDIA's driver are looked up; empty: it cannot
  /// be read by then. Nothing: the script says nothing about them.
  std::optional<std::string> image_of_gpus;
  struct Folder {
    std::string path, key;
  };
  std::vector<Folder> made_folders;  ///< made where they are missing
  std::string setup;                 ///< the user's shell lines
  std::string setup_node;            ///< those that run on every node
};

/// What was asked of Slurm, for GPU-hours; a number that the spec leaves to Slurm is absent.
struct Requested {
  std::optional<std::int64_t> nodes, tasks, gpus, cpus;
  std::optional<std::int64_t> time_seconds;
};

/// One thing that the job waits for.
struct PlannedDependency {
  std::string type;  ///< Slurm's word: afterok, afterany, afternotok
  std::string run;   ///< a Slurm job id, or the name of a run
  std::string key;
  [[nodiscard]] bool is_job_id() const;
};

/// Where runs remember bad nodes (health.known_bad).
struct KnownBad {
  std::string file;          ///< absolute
  std::int64_t seconds = 0;  ///< how long a node is remembered
};

enum class Target { kSlurm, kLocal };

/// Everything dlrun decided. The script is its only rendering; plan.json is the same as data.
struct LaunchPlan {
  Target target = Target::kSlurm;
  std::string name;
  std::string folder;     ///< where the job starts: slurm.chdir, else the spec's
  bool snapshot = false;  ///< submit and run copy the source tree, and the job starts in the copy
  std::string runs_dir,
      agent;  ///< absolute; no agent: launch.agent is false, and a shell does its part
  std::vector<PlannedOption>
      directives;                        ///< sbatch's, in the script's order; salloc takes the same
  std::vector<PlannedDependency> after;  ///< as given; submit finds the jobs of runs
  bool output_given = false;             ///< resources.output is the user's: submit leaves it alone
  std::optional<std::string> clusters;   ///< -M of every query about the run
  std::optional<RestServer> server;      ///< submit through it; nothing: through sbatch
  Prologue prologue;
  bool shares_cpus =
      false;  ///< resources.cpus_per_task is not given: the script divides what it got
  std::vector<PlannedVariable>
      step_vars;                         ///< exported before the ranks' step, and for no other one
  std::vector<PlannedOption> step;       ///< srun's options, in order
  std::vector<PlannedOption> container;  ///< those of them that put a task into its container
  std::string runtime;                   ///< of the container; "none": there is none
  ContainerEntry entry;                  ///< how a task enters it where srun cannot put it there
  std::vector<PlannedOption>
      rank_options;  ///< of the rank agent: --nproc-per-node, --roles, --word TEMPLATE
  std::vector<PlannedVariable>
      rank_vars;  ///< bytes that the container's runtime would change: set by the rank agent
  std::vector<PlannedVariable> rank_env;  ///< --env NAME=TEMPLATE of the rank agent
  std::vector<SecretSource>
      secrets;  ///< --secret NAME of the rank agent; the values travel in the run's own file
  bool trusted = false;  ///< the program is dlrun's own
  std::vector<PlannedWords> program;
  bool forward_usr1 = false;  ///< checkpoint.signal_before is given
  std::vector<PlannedOption>
      lead_options;  ///< of the leader: when the run starts again, when it hangs
  std::optional<KnownBad> known_bad;
  std::int64_t local_ranks = 1;  ///< how many ranks `dlrun run` starts: tasks on one node
  Requested requested;

  [[nodiscard]] std::vector<std::string> program_argv() const;
};

struct PlanInputs {
  std::string runs_dir;            ///< absolute
  std::string agent_path;          ///< absolute, where the nodes will find it
  std::string trainer_path;        ///< absolute, beside the agent; used by the preset `trainer`
  Target target = Target::kSlurm;  ///< kLocal: one node, no Slurm: `dlrun run`
};

/// Decides. All checks that need more than one key are made here and in load_spec's, and all their
/// errors are returned. kLocal refuses a container other than none.
[[nodiscard]] tl::expected<LaunchPlan, std::vector<Diagnostic>> make_plan(const LoadedSpec& loaded,
                                                                          const PlanInputs& inputs);

/// The run's plan.json: an object with every field above, ended by a newline.
[[nodiscard]] std::string plan_json(const LaunchPlan& plan);

/// --runs, $DLRUN_RUNS, the site's, else current_dir/runs; absolute, without '.' and '..'.
[[nodiscard]] std::string runs_directory(const std::optional<std::string>& option, const Env& env,
                                         const SiteProfile& site,
                                         const std::filesystem::path& current_dir);

/// The file of bad nodes that the runs of a runs folder share, where health.known_bad.file names no
/// other.
[[nodiscard]] std::string known_bad_file_in(std::string_view runs_dir);

/// Where the job's commands start: the spec's folder, unless slurm.chdir says otherwise. Absolute.
[[nodiscard]] std::string start_folder(const LoadedSpec& loaded);

/// What on this machine will not be there for the job: mount sources, the virtual environment, an
/// image path, train.data.path, the program and the script that it is given. Warnings; for submit
/// and check, since a file may exist on the nodes only.
[[nodiscard]] std::vector<Diagnostic> check_files(const LoadedSpec& loaded);

}  // namespace dlrun
