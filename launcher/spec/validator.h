#pragma once
// The checks that involve several keys, as members of one class. Only launcher/spec/validate*.cc
// include this file.

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/spec/component_layout.h"
#include "launcher/spec/load.h"

namespace dlrun {

class Validator {
 public:
  Validator(const LoadedSpec& loaded, const std::set<std::string, std::less<>>& refused,
            const std::set<std::string, std::less<>>& correct_spellings)
      : loaded_(loaded),
        spec_(loaded.spec),
        site_(loaded.site),
        preset_(loaded.preset),
        file_(loaded.file),
        refused_(refused),
        correct_spellings_(correct_spellings) {}

  /// Makes all checks and returns their findings.
  [[nodiscard]] std::vector<Diagnostic> run() &&;

 private:
  void error(std::string_view key, std::string message) {
    add_finding(Diagnostic::Severity::kError, key, std::move(message));
  }
  void warn(std::string_view key, std::string message) {
    add_finding(Diagnostic::Severity::kWarning, key, std::move(message));
  }
  /// Adds a finding with the origin of the key. Does nothing if the key's value was refused,
  /// because that key has an error already.
  void add_finding(Diagnostic::Severity severity, std::string_view key, std::string message);
  /// Returns true if the spec, --set, the preset, the site or the environment sets the key, even if
  /// the value was refused.
  [[nodiscard]] bool has(std::string_view key) const {
    return spec_.origins.contains(key) || refused_.contains(key);
  }
  /// Returns true if the spec has an unknown key that probably means this key, or a section that
  /// contains this key.
  [[nodiscard]] bool is_misspelt(std::string_view key) const;

  // validate.cc: resources, sweep, submit, and keys that exclude each other
  /// Refuses keys that exclude each other, a variable that is in both environment.secrets and
  /// environment.vars, and environment.conda.module without environment.conda.name.
  void check_exclusive_keys();
  void check_ntasks();
  /// Checks nodelist and exclude. If nodelist has more nodes than the job, Slurm ignores some of
  /// them, or the job waits for ever.
  void check_nodes();
  void check_gpus();
  /// Compares the spec with the site's facts about the job's partition. Reports only warnings,
  /// because the cluster may have changed since the site file was written.
  void check_partition();
  void check_time();
  void check_sweep();
  void check_stop_early();
  /// Refuses the other keys of a search (sweep.ask_timeout, sweep.max_points) without sweep.ask.
  void check_ask();
  /// Refuses keys and values that do not work if one job runs several points (sweep.pack).
  void check_pack();
  /// Refuses swept keys of the bundled trainer if another program runs.
  void check_swept_trainer_keys();
  void check_submit();

  // validate_components.cc: components and hetjob
  /// Makes all checks of a spec with components, and those of each component.
  void check_components();
  /// Refuses keys of the whole job that a job with components cannot have.
  void check_keys_of_whole_job();
  void check_component_names();
  /// Checks the keys of a component that depend on its role (ready, retry). Refuses what no
  /// component can have: launch.agent, and a range of nodes. Warns if cpus_per_task is missing.
  /// single, here and below: the component as a spec with a single program.
  void check_keys_and_role(std::size_t index, const LoadedSpec& single);
  /// Checks the use of {port} in the command; {port} is the port that dlrun reserves for a service.
  /// Refuses the argument '+++', which separates the components in the command line of lead.
  void check_command_and_port(std::size_t index, const LoadedSpec& single);
  /// Refuses a second trainer: train and checkpoint are keys of the whole spec, so that both would
  /// use one checkpoint folder.
  void check_trainers(const std::vector<LoadedSpec>& specs);
  /// Refuses options of srun that dlrun sets for each component.
  void check_step_options(std::size_t index, const LoadedSpec& single);
  void check_after_names();
  /// Checks that `shares` names a component with nodes of its own, and with enough nodes.
  void check_shares(const std::vector<LoadedSpec>& specs);
  /// Refuses `name` if no component has this name.
  void check_component_exists(std::size_t index, std::string_view key, const std::string& name);
  void check_hetjob(const ComponentLayout& layout);
  void check_nodelist_of_components(const ComponentLayout& layout);
  /// Checks the nodes that several components share.
  void check_shared_nodes(const std::vector<LoadedSpec>& specs, const NodeGroup& group);
  /// Makes the checks of a job with a single program for each component. Then makes the checks of
  /// the whole job that need the components' values.
  void check_each_component(const std::vector<LoadedSpec>& specs);
  /// Adds a finding about a component's key, such as "after".
  void add_component_finding(Diagnostic::Severity severity, std::size_t index, std::string_view key,
                             std::string_view message);
  void refuse_component(std::size_t index, std::string_view key, std::string_view message) {
    add_component_finding(Diagnostic::Severity::kError, index, key, message);
  }

  // validate_run.cc: container, environment, agent, retry, health, profile, notify and track
  void check_container();
  /// Refuses an environment in a container, an environment that a sweep changes, and an environment
  /// without another key that it needs. all_in_container: every rank runs in a container.
  void check_environment(bool all_in_container);
  void check_agent();
  /// Checks retry, health and resources.spare_nodes.
  void check_retry_and_health();
  void check_grow();
  void check_chain();
  void check_profile();
  void check_notify();
  void check_webhook();
  /// Warns of variables in environment.vars that are named like secrets.
  void warn_of_secret_variables();
  /// Checks the name of the variable that holds a secret. secret_in_words: the description of the
  /// secret for messages, such as "the address".
  void check_secret_name(std::string_view key, const std::string& name,
                         std::string_view secret_in_words);
  void check_track();
  void check_idle_gpu();
  /// Checks the entry `fabric` of health.preflight. measures_all_reduce: health.preflight also has
  /// nccl or gloo. has_rccl: health.preflight also has rccl.
  void check_fabric(bool measures_all_reduce, bool has_rccl);
  void check_spare_nodes();
  void check_known_bad();

  // validate_data.cc: download, stage and outputs
  void check_data();
  void check_download_section();
  /// Warns of each path in stage and outputs that no mount of the container covers: the copies
  /// may then be in the container's own file system, and not on the node's disk.
  void warn_of_unmounted_data_paths();

  // validate_train.cc: launch and train
  /// Checks launch.nproc_per_node and launch.roles, whose meaning depends on the preset.
  void check_preset();
  /// Checks launch.command, and all keys of train.
  void check_launch();
  /// Warns about the keys of checkpoint that only the bundled trainer uses, if another program
  /// runs.
  void warn_of_unused_checkpoint_keys();
  /// Warns about a word with a variable of the job, such as $TMPDIR/data, that no shell expands.
  void check_variables_in_command();
  /// Warns about torchrun under a preset that sets the variables of PyTorch's ranks.
  void warn_of_torchrun();
  void check_train_backend();
  /// Checks the keys of the network, the learning rate, the optimizer, local steps, the precision
  /// and CUDA graphs, and checkpoint.resume.
  void check_trainer_settings();
  void check_train_data();
  /// Checks the dataset `patches` and train.augment.
  void check_patches_and_augment();
  void check_train_downloads();

  const LoadedSpec& loaded_;
  const JobSpec& spec_;
  const SiteProfile& site_;
  const Preset& preset_;
  const std::string& file_;
  const std::set<std::string, std::less<>>&refused_, &correct_spellings_;
  /// The origin of findings about keys that the spec does not set.
  Origin fallback_origin_{Origin::Kind::kFile, file_, 0, 0};
  std::vector<Diagnostic> findings_;
};

}  // namespace dlrun
