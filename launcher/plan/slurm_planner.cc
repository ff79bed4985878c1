// Plans the options for Slurm: sbatch's directives and srun's options.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "common/quoting.h"
#include "common/text.h"
#include "launcher/plan/planner.h"
#include "launcher/plan/rest_job.h"
#include "launcher/spec/derived.h"
#include "launcher/spec/key_name.h"

namespace dlrun {
namespace {

/// The agent's variables that lead passes to the ranks. The image must not replace them.
constexpr std::array<std::string_view, 5> kAgentVariables{"DLRUN_RUN", "DLRUN_JOB", "DLRUN_ATTEMPT",
                                                          "DLRUN_LEAD", "DLRUN_SECRET"};

[[nodiscard]] bool is_at_or_below(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) &&
         (path.size() == folder.size() || folder.ends_with('/') || path[folder.size()] == '/');
}

/// Returns true for resources.output, resources.error and resources.signal. Their directives come
/// after the options of `slurm` in the script.
[[nodiscard]] bool follows_slurm_options(const KeyRow& row) {
  return row.path == "resources.output"_key || row.path == "resources.error"_key ||
         row.path == "resources.signal"_key;
}

/// Returns true if the step of `submit --in` takes this option of sbatch from the job's directives.
/// Returns false for --cpus-per-task and --cpus-per-gpu, because plan_step() adds them for every
/// job.
[[nodiscard]] bool is_option_of_step(std::string_view option) {
  const KeyRow* row = find_sbatch_key(option);
  if (row == nullptr || row->path == "resources.cpus_per_task"_key ||
      row->path == "resources.cpus_per_gpu"_key)
    return false;
  return row->option.scope == SbatchScope::kNodeChoice ||
         row->option.scope == SbatchScope::kRankRequest;
}

}  // namespace

void Planner::add_key_directive(const KeyRow& row) {
  const Resources& r = spec_.resources;
  if (row.path == "resources.nodes"_key && !r.nodes && !r.ntasks) {
    add_directive("--nodes", "1", "resources.nodes"_key);
    return;
  }
  if (row.path == "resources.tasks_per_node"_key && !r.tasks_per_node && !r.ntasks) {
    const bool by_gpus = r.gpus_per_node && r.gpus_per_node->count > 0;
    add_directive("--ntasks-per-node", fmt::format("{}", ranks_per_node(spec_).value_or(1)),
                  by_gpus ? "resources.gpus_per_node"_key : "resources.tasks_per_node"_key);
    return;
  }
  const auto value = option_text(row, spec_);
  if (!value) return;
  if (row.path == "resources.nodes"_key && r.spare_nodes) {
    add_directive("--nodes", fmt::format("{}", step_nodes_ + *r.spare_nodes),
                  "resources.nodes, resources.spare_nodes");
    return;
  }
  if (row.path == "resources.gpus_per_node"_key) {
    if (r.gpus_per_node->count == 0) return;
    if (site_.gpu_style == "gres") {
      add_directive("--gres", "gpu:" + *value, row.path);
      return;
    }
  }
  const auto origin = spec_.origins.find(row.path);
  const bool comes_from_preset =
      origin != spec_.origins.end() && origin->second.kind == Origin::Kind::kPreset;
  const std::string key =
      comes_from_preset ? "launch.preset: " + preset_.name : std::string(row.path);
  if (row.format == Format::kTextOrSwitch && *value == "true") {
    add_directive(row.option.name, std::nullopt, key);
  } else {
    add_directive(row.option.name, *value, key);
  }
}

void Planner::plan_directives() {
  for (const KeyRow& row : spec_keys()) {
    if (row.option.target == KeyTarget::kSbatch && !follows_slurm_options(row))
      add_key_directive(row);
  }
  plan_dependencies();
  for (const SlurmOption& option : spec_.slurm) {
    if (option.name != "chdir") add_directive("--" + option.name, option.value, "slurm");
  }
  add_log_directives();
  add_restart_directives();
}

void Planner::add_log_directives() {
  const Resources& r = spec_.resources;
  const bool is_spec_folder = plan_.folder == spec_folder_;
  add_directive("--chdir", plan_.folder, is_spec_folder ? "the spec's folder" : "slurm.chdir");
  plan_.is_output_given = r.output.has_value();
  add_directive("--output",
                r.output ? *r.output
                         : fmt::format("{}/{}-%j.out", escaped_for_sbatch_pattern(inputs_.runs_dir),
                                       plan_.name),
                "resources.output"_key);
  if (r.error) add_directive("--error", *r.error, "resources.error"_key);
}

void Planner::add_restart_directives() {
  if (spec_.resources.signal)
    add_directive("--signal", *spec_.resources.signal, "resources.signal"_key);
  if (spec_.checkpoint.signal_before)
    add_directive("--signal", "B:USR1@" + *spec_.checkpoint.signal_before,
                  "checkpoint.signal_before"_key);
  add_directive("--open-mode", "append", "a requeue keeps the log");
  if (may_be_requeued_) {
    add_directive("--requeue", std::nullopt, "retry.on"_key);
  } else {
    add_directive("--no-requeue", std::nullopt, "no retry");
  }
  if (continues_with_fewer_nodes_)
    add_directive("--no-kill", std::nullopt, "retry.on: node_failure, resources.nodes");
}

void Planner::check_rest_directives() {
  for (const PlannedOption& directive : plan_.directives) {
    if (const auto why = rest_option_refusal(directive.option, directive.value, std::nullopt))
      add_error(
          directive.comment == "slurm" ? "slurm." + directive.option.substr(2) : directive.comment,
          fmt::format("{}: {}", directive.comment, *why));
  }
}

void Planner::plan_dependencies() {
  const auto add = [&](std::string_view type, std::string_view key,
                       const std::vector<std::string>& runs) {
    for (const std::string& run : runs)
      plan_.after.push_back({std::string(type), run, std::string(key)});
  };
  add("afterok", "after.ok"_key, spec_.after.ok);
  add("afterany", "after.any"_key, spec_.after.any);
  add("afternotok", "after.notok"_key, spec_.after.notok);
  if (plan_.after.empty()) return;
  std::vector<std::string> words;
  for (const PlannedDependency& one : plan_.after) {
    if (one.is_job_id()) words.push_back(one.type + ":" + one.run);
  }
  if (!words.empty()) add_directive("--dependency", join(words, ","), "after");
  const bool is_set_by_user =
      std::any_of(spec_.slurm.begin(), spec_.slurm.end(),
                  [](const SlurmOption& option) { return option.name == "kill-on-invalid-dep"; });
  if (!is_set_by_user) add_directive("--kill-on-invalid-dep", "yes", "after");
}

void Planner::add_directive(std::string_view option, std::optional<std::string> value,
                            std::string_view key) {
  plan_.directives.push_back({std::string(option), std::move(value), std::string(key)});
}

std::vector<UserSrunOption> Planner::plan_container() {
  std::vector<UserSrunOption> user_options;
  for (const SlurmOption& option : spec_.launch.srun)
    user_options.emplace_back(option.name, option.value);
  const ContainerBackend& backend = *find_container_backend(runtime_);
  StepContainer container = step_container();
  for (const PlannedVariable& variable : plan_.prologue.vars) {
    if (backend.carries_value(variable.value)) continue;
    plan_.rank_vars.push_back(variable);
    std::erase(container.exported_names, variable.name);
  }
  plan_.runtime = runtime_;
  plan_.enter_script = backend.enter_script(container);
  // An interactive session finds the secrets in its environment and passes them into the
  // container. The ranks of a job get them from the agent instead.
  for (const SecretSource& secret : plan_.secrets) container.exported_names.push_back(secret.name);
  plan_.enter_script.session = backend.enter_script(container).session;
  for (ContainerOption& option : backend.step_options(container, user_options)) {
    plan_.container.push_back(
        {std::move(option.option), std::move(option.value), std::move(option.comment)});
  }
  return user_options;
}

void Planner::plan_step() {
  const auto add = [&](std::string_view option, std::optional<std::string> value,
                       std::string_view key) {
    plan_.step.push_back({std::string(option), std::move(value), std::string(key)});
  };
  add("--export", "ALL", "what this script exports reaches the ranks");
  add("--kill-on-bad-exit", "1", "a rank that is lost ends the step");
  if (inputs_.uses_existing_allocation) repeat_requests_in_step();
  if (continues_with_fewer_nodes_)
    add("--no-kill", std::nullopt, "lead restarts the ranks on the other nodes");
  if (spec_.resources.spare_nodes) {
    add("--nodes", fmt::format("{}", step_nodes_), "resources.nodes"_key);
    add("--ntasks", fmt::format("{}", step_nodes_ * ranks_per_node(spec_).value_or(1)),
        "resources.tasks_per_node"_key);
  }
  if (spec_.resources.cpus_per_gpu) {
    add("--cpus-per-gpu", fmt::format("{}", *spec_.resources.cpus_per_gpu),
        "resources.cpus_per_gpu"_key);
  } else if (spec_.resources.cpus_per_task) {
    add("--cpus-per-task", fmt::format("{}", *spec_.resources.cpus_per_task),
        "resources.cpus_per_task"_key);
  } else {
    plan_.shares_cpus = true;
  }
  const bool uses_preset_mpi =
      preset_.wants_mpi && site_.mpi != "default" && (!preset_.is_trainer || trainer_wants_mpi());
  for (const KeyRow& row : spec_keys()) {
    if (row.option.target != KeyTarget::kSrun) continue;
    if (auto value = option_text(row, spec_)) {
      add(row.option.name, std::move(value), row.path);
    } else if (row.path == "launch.mpi"_key && uses_preset_mpi) {
      add(row.option.name, site_.mpi.empty() ? "pmix" : site_.mpi,
          "launch.preset: " + preset_.name);
    }
  }
  for (const auto& [name, value] : plan_container()) add("--" + name, value, "launch.srun"_key);
  add_pmix_variables();
  plan_.step.insert(plan_.step.end(), plan_.container.begin(), plan_.container.end());
}

void Planner::repeat_requests_in_step() {
  const bool has_spare = spec_.resources.spare_nodes.has_value();
  bool has_tasks = has_spare;
  for (const PlannedOption& directive : plan_.directives) {
    if (!is_option_of_step(directive.option)) continue;
    if (has_spare && (directive.option == "--nodes" || directive.option == "--ntasks")) continue;
    has_tasks = has_tasks || directive.option == "--ntasks";
    plan_.step.push_back(directive);
  }
  const bool has_nodes =
      std::any_of(plan_.step.begin(), plan_.step.end(),
                  [](const PlannedOption& option) { return option.option == "--nodes"; });
  if (!has_spare && !has_nodes && plan_.requested.nodes)
    plan_.step.push_back(
        {"--nodes", fmt::format("{}", *plan_.requested.nodes), "resources.nodes"_key});
  if (!has_tasks && plan_.requested.tasks)
    plan_.step.push_back(
        {"--ntasks", fmt::format("{}", *plan_.requested.tasks), "resources.tasks_per_node"_key});
}

void Planner::add_pmix_variables() {
  if (!wants_pmix_variables()) return;
  const auto is_set = [this](const std::string& name) {
    const auto& vars = plan_.prologue.vars;
    return std::any_of(vars.begin(), vars.end(),
                       [&](const auto& variable) { return variable.name == name; });
  };
  for (const auto& [name, value] : preset_.pmix_vars) {
    if (!is_set(name)) plan_.step_vars.push_back({name, value, "launch.preset: " + preset_.name});
  }
}

bool Planner::wants_pmix_variables() const {
  if (inputs_.target == Target::kLocal) return false;
  if (spec_.launch.mpi) return spec_.launch.mpi->starts_with("pmix");
  if (!preset_.wants_mpi || (preset_.is_trainer && !trainer_wants_mpi())) return false;
  if (site_.mpi == "default") return runtime_ == "none";
  return site_.mpi.empty() || site_.mpi.starts_with("pmix");
}

void Planner::check_dlrun_mounts() {
  const auto check = [&](std::string_view key, std::string_view path, std::string_view role,
                         std::string_view remedy) {
    const auto at = path.find_first_of(find_container_backend(runtime_)->unmountable_characters());
    if (at == std::string_view::npos) return;
    add_error(key, fmt::format("{}: {} '{}' holds '{}' and cannot be mounted into a container{}",
                               key, role, printable(path), path[at], remedy));
  };
  check("container.image"_key, inputs_.runs_dir, "the runs folder",
        "; choose another folder with --runs");
  check("download.path"_key, spec_.download.path.value_or(""), "the folder", "");
  for (const StagedData& one : spec_.stage) check("stage"_key, one.from, "the source", "");
  for (const OutputCopy& one : spec_.outputs) {
    if (one.to.starts_with('/')) check("outputs"_key, one.to, "the folder", "");
  }
  if (!preset_.is_trainer) return;
  check("train.data.path"_key, spec_.train.data_path.value_or(""), "the folder", "");
  check("checkpoint.dir"_key, spec_.checkpoint.dir.value_or(""), "the folder", "");
}

void Planner::check_pmi() {
  if (runtime_ != "enroot") return;
  const auto mpi =
      std::find_if(plan_.step.begin(), plan_.step.end(),
                   [](const PlannedOption& option) { return option.option == "--mpi"; });
  if (mpi == plan_.step.end() || mpi->value != "pmi2") return;
  add_error(
      "launch.mpi"_key,
      "launch.mpi: pmi2 does not reach into a container that enroot starts without pyxis; use "
      "pmix, or none for a program without MPI");
}

void Planner::check_container_save() {
  if (!spec_.container.save || plan_.requested.tasks == 1 || plan_.requested.nodes == 1) return;
  add_error(
      "container.save"_key,
      plan_.requested.nodes
          ? fmt::format(
                "container.save: each of the {} nodes would write '{}'; give resources.nodes: 1",
                *plan_.requested.nodes, printable(*spec_.container.save))
          : fmt::format(
                "container.save: every node of the job would write '{}'; give resources.nodes: 1",
                printable(*spec_.container.save)));
}

StepContainer Planner::step_container() const {
  StepContainer container{spec_.container, {}, {}, {}, has_gpus(spec_, site_).value_or(true)};
  const auto add_mount = [&](const std::string& path) {
    const bool is_mounted =
        std::any_of(container.dlrun_mounts.begin(), container.dlrun_mounts.end(),
                    [&](const Mount& m) { return is_at_or_below(path, m.target); });
    if (!is_mounted) container.dlrun_mounts.push_back({path, path, {}, true});
  };
  add_mount(inputs_.runs_dir);
  if (!plan_.agent.empty()) add_mount(plan_.agent.substr(0, plan_.agent.rfind('/')));
  if (spec_.download.path) add_mount(*spec_.download.path);
  for (const StagedData& one : spec_.stage) add_mount(one.from);
  for (const OutputCopy& one : spec_.outputs) {
    if (one.to.starts_with('/')) add_mount(one.to);
  }
  if (preset_.is_trainer) {
    if (spec_.train.data_path) add_mount(*spec_.train.data_path);
    if (spec_.checkpoint.dir && spec_.checkpoint.dir->starts_with('/'))
      add_mount(*spec_.checkpoint.dir);
  }
  for (const PlannedVariable& variable : plan_.prologue.vars) {
    // The image's own values of the variables about GPUs must not be replaced.
    if (!variable.is_about_gpus) container.overriding_names.push_back(variable.name);
  }
  if (wants_pmix_variables()) {
    for (const auto& [name, value] : preset_.pmix_vars) container.overriding_names.push_back(name);
  }
  container.exported_names = container.overriding_names;
  // Without the agent, a shell inside the container sets the variables of rank_templates.
  if (!plan_.agent.empty()) {
    for (const PlannedVariable& variable : plan_.rank_templates)
      container.overriding_names.push_back(variable.name);
  }
  if (plan_.agent.empty()) {
    container.overriding_names.emplace_back("DLRUN_MASTER_PORT");
  } else {
    container.overriding_names.insert(container.overriding_names.end(), kAgentVariables.begin(),
                                      kAgentVariables.end());
  }
  return container;
}

}  // namespace dlrun
