#pragma once
// Fills a LaunchPlan part by part. Every error points to the key of the spec that caused it.
// planner.cc plans the parts that every job has, slurm_planner.cc the parts for Slurm. Only
// launcher/plan includes this header.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan/plan.h"
#include "launcher/spec/spec_keys.h"

namespace dlrun {

class Planner {
 public:
  /// Both arguments must outlive this object.
  Planner(const LoadedSpec& loaded, const PlanInputs& inputs);
  [[nodiscard]] tl::expected<LaunchPlan, std::vector<Diagnostic>> run() &&;

 private:
  friend class ComponentPlanner;
  void add_error(std::string_view key, std::string message);
  /// Refuses a runs folder that Slurm cannot express in the path of the log. Accepts all folders if
  /// resources.output sets another path.
  void check_runs_folder();
  /// Fills plan_.requested, the resources that the job requests.
  void count_resources();
  /// Refuses keys that `dlrun run` on this machine cannot follow.
  void check_local();
  /// Refuses keys that a run in an existing allocation of the user cannot follow.
  void check_existing_allocation();
  /// Fills the modules and environments that the prologue loads.
  void plan_activations();
  /// Fills the prologue: plan_activations(), variables, folders and setup lines.
  void plan_prologue();
  /// Adds the rank agent's options for health.preflight, with the expected figures of the fabric
  /// (numbers and speeds of links) that the site file gives. Sets needs_trainer if a check runs
  /// dlrun-trainer.
  void add_preflight_options();
  /// Adds the rank agent's options for profile.
  void add_profile_options();
  /// Adds the rank agent's options, and the variables and secrets that the agent sets.
  /// add_wandb_variables() adds more variables.
  void plan_rank_agent();
  /// Adds the rank agent's options --stage and --output, whose values are JSON objects.
  void add_stage_and_output_options();
  /// Fills plan_.program.
  void plan_program();
  /// Returns true if the ranks can use the host's MPI. An image rarely holds the host's libmpi.
  [[nodiscard]] bool may_use_mpi() const;
  /// Returns the trainer's --backend: train.backend, or the choice for its value `auto`.
  [[nodiscard]] std::string trainer_backend() const;
  /// Returns true if the trainer uses MPI, or may choose it when it starts.
  [[nodiscard]] bool trainer_wants_mpi() const;
  /// Adds lead's options for hangs, idle GPUs, bad nodes, an allocation that the user already has,
  /// the signal before the time limit, the early end of a sweep's points, rehearsals and restarts.
  /// Sets may_be_requeued_ and continues_with_fewer_nodes_.
  void add_lead_options();
  /// Adds lead's options for notify, and the name of the secret that they use.
  void add_notify_options();
  /// Adds lead's options for track.tensorboard and track.mlflow, and the name of the secret that
  /// they use.
  void add_track_options();
  /// Adds the variables WANDB_* of the ranks, except those that the spec sets.
  void add_wandb_variables();
  /// Adds lead's options for health.known_bad: the file, and the time for which a node stays in it.
  void add_bad_node_options();
  /// Adds the directive of a key if the key has a value or a default.
  void add_key_directive(const KeyRow& row);
  /// Fills plan_.directives, sbatch's options, and plan_.after.
  void plan_directives();
  /// Adds --chdir, --output and --error.
  void add_log_directives();
  /// Adds the options for signals, for a requeue and for the loss of a node: --signal, --open-mode,
  /// --requeue, --no-kill, ...
  void add_restart_directives();
  /// Refuses directives that no version of slurmrestd's API can express. Later the executor, which
  /// knows the server's version, refuses the directives that this version cannot express.
  void check_rest_directives();
  /// Fills plan_.after, and adds a directive for the dependencies that the spec gives as job ids.
  /// The submission finds the jobs of dependencies that the spec gives as runs; --dependency on the
  /// command line then lists the dependencies of both kinds.
  void plan_dependencies();
  void add_directive(std::string_view option, std::optional<std::string> value,
                     std::string_view key);
  /// Plans how a task enters the container. Returns the user's options of srun without those that
  /// the container's backend merged into its own options.
  [[nodiscard]] std::vector<UserSrunOption> plan_container();
  /// Fills plan_.step, srun's options for the ranks.
  void plan_step();
  /// Repeats the job's requests in the step's options, because the allocation may be larger.
  void repeat_requests_in_step();
  /// Adds the preset's variables for PMIx to a step that uses PMIx. Other steps must not have them:
  /// a hook of enroot reads any PMIX_* variable as the sign of PMIx, and then fails.
  void add_pmix_variables();
  /// Returns true if srun starts the ranks over PMIx. If the site uses srun's default plugin, which
  /// may or may not be PMIx, returns true only for a job without a container: there, PMIX_*
  /// variables do no harm even without PMIx.
  [[nodiscard]] bool wants_pmix_variables() const;
  /// Refuses folders that dlrun must mount but whose paths the container tool cannot mount. dlrun
  /// mounts each of these folders at its own path.
  void check_dlrun_mounts();
  /// Refuses PMI2 with enroot: a PMI2 task uses a file descriptor from srun, which enroot closes.
  void check_pmi();
  /// Refuses container.save if the job may use several nodes: each node would save its container,
  /// and the last file would overwrite the others.
  void check_container_save();
  /// Returns the inputs of the container's backend: the mounts that dlrun needs, and the names of
  /// the variables that the container gets.
  [[nodiscard]] StepContainer step_container() const;

  const JobSpec& spec_;
  const SiteProfile& site_;
  const Preset& preset_;
  const std::string& file_;
  const std::string& spec_folder_;
  const PlanInputs& inputs_;
  std::string runtime_;
  /// Number of nodes that an attempt uses, without spare nodes; 0 if the spec does not fix it.
  std::int64_t step_nodes_ = 0;
  bool may_be_requeued_ = false;             ///< Slurm may queue the job again
  bool continues_with_fewer_nodes_ = false;  ///< losing a node does not end the job
  LaunchPlan plan_;
  std::vector<Diagnostic> errors_;
};

}  // namespace dlrun
