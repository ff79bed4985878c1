#include "launcher/plan/component_planner.h"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "common/text.h"
#include "launcher/spec/component_specs.h"
#include "launcher/spec/derived.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/value_syntax.h"

namespace dlrun {
namespace {

/// Options of sbatch that have no key and that each part of a heterogeneous job must repeat,
/// because sbatch resets them at the end of a part (`reset_each_pass` in Slurm's
/// src/common/slurm_opt.c). sbatch also resets --mail-type, --mail-user and --umask, but the whole
/// job has these options from its first part, in which the script runs. A spec cannot set
/// --no-kill; dlrun sets it for `retry.on: node_failure`.
constexpr auto kPartOptionsWithoutKey = std::to_array<std::string_view>({
    "--consolidate-segments",
    "--contiguous",
    "--core-spec",
    "--cores-per-socket",
    "--cpu-freq",
    "--extra-node-info",
    "--gpu-bind",
    "--gpu-freq",
    "--gpus-per-socket",
    "--gres-flags",
    "--mem-bind",
    "--mincpus",
    "--network",
    "--no-kill",
    "--ntasks-per-core",
    "--ntasks-per-gpu",
    "--ntasks-per-socket",
    "--overcommit",
    "--oversubscribe",
    "--resv-ports",
    "--segment",
    "--sockets-per-node",
    "--spread-job",
    "--spread-segments",
    "--switches",
    "--thread-spec",
    "--tmp",
    "--tres-bind",
    "--tres-per-task",
    "--use-min-nodes",
});

/// The options of sbatch that dlrun computes from all components together if the job has a single
/// allocation.
constexpr std::array<std::string_view, 6> kOptionsFromAllComponents{
    "--nodes", "--ntasks-per-node", "--cpus-per-task", "--gpus-per-node", "--gres", "--mem"};

template <std::size_t kSize>
[[nodiscard]] bool is_option_of(const std::array<std::string_view, kSize>& names,
                                std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Returns true if each part of a heterogeneous job sets this option of sbatch for itself. The
/// other options of the first part, such as the log, apply to the whole job.
[[nodiscard]] bool is_option_of_part(std::string_view option) {
  if (const KeyRow* row = find_sbatch_key(option))
    return row->option.scope != SbatchScope::kWholeJob;
  return is_option_of(kPartOptionsWithoutKey, option);
}

/// Returns a memory size as Slurm takes it: in GiB if it is a whole number of them, else in MiB.
[[nodiscard]] std::string slurm_memory(std::int64_t mib) {
  return mib % 1024 == 0 ? fmt::format("{}G", mib / 1024) : fmt::format("{}M", mib);
}

void add_requested(Requested& sum, const Requested& one) {
  const auto add = [](std::optional<std::int64_t>& to, const std::optional<std::int64_t>& from) {
    to = to && from ? std::optional(*to + *from) : std::nullopt;
  };
  add(sum.nodes, one.nodes);
  add(sum.tasks, one.tasks);
  add(sum.gpus, one.gpus);
  add(sum.cpus, one.cpus);
}

[[nodiscard]] bool has_variable(const std::vector<PlannedVariable>& variables,
                                std::string_view name) {
  return std::any_of(variables.begin(), variables.end(),
                     [&](const PlannedVariable& one) { return one.name == name; });
}

/// Returns true if a text contains the field {port}.
[[nodiscard]] bool contains_port_field(std::string_view text) {
  return text.find("{port}") != std::string_view::npos;
}

}  // namespace

ComponentPlanner::ComponentPlanner(const LoadedSpec& loaded, const PlanInputs& inputs)
    : loaded_(loaded),
      inputs_(inputs),
      specs_(loaded_specs_of_components(loaded)),
      layout_(layout_of(loaded.spec, specs_)) {
  for (LoadedSpec& component : specs_) {
    JobSpec& spec = component.spec;
    // On a shared node, a step gets only the CPUs that it requests, so the number is always set.
    spec.resources.cpus_per_task = spec.resources.cpus_per_task.value_or(1);
    spec.resources.nodes = NodeRange{nodes_of(spec), nodes_of(spec)};
    if (may_have_gpus(spec)) may_have_gpus_ = true;
  }
  requesting_spec_ = make_requesting_spec();
}

LoadedSpec ComponentPlanner::make_requesting_spec() const {
  LoadedSpec requesting = specs_[layout_.components_in_part_order.front()];
  requesting.preset = Preset();
  requesting.preset.name = "plain";
  requesting.spec.name = loaded_.spec.name;
  requesting.spec.launch = Launch{};
  requesting.spec.container = ContainerSpec{};
  requesting.spec.environment = loaded_.spec.environment;
  requesting.spec.sweep = loaded_.spec.sweep;
  requesting.spec.health = loaded_.spec.health;
  requesting.spec.origins = loaded_.spec.origins;
  if (layout_.is_hetjob) return requesting;
  Resources& r = requesting.spec.resources;
  const NodeRequest& common = layout_.common_request;
  r.nodes = NodeRange{layout_.nodes, layout_.nodes};
  r.tasks_per_node = 1;
  r.cpus_per_task = common.cpus;
  r.gpus_per_node = common.gpus.count > 0 ? std::optional(common.gpus) : std::nullopt;
  const bool wants_all_memory =
      std::any_of(specs_.begin(), specs_.end(), [](const LoadedSpec& component) {
        return component.spec.resources.mem && !memory_mib(*component.spec.resources.mem);
      });
  r.mem_per_cpu.reset();
  r.mem.reset();
  if (wants_all_memory) {
    r.mem = "0";
  } else if (common.mem_mib) {
    r.mem = slurm_memory(*common.mem_mib);
  }
  return requesting;
}

tl::expected<LaunchPlan, std::vector<Diagnostic>> ComponentPlanner::run() && {
  if (inputs_.target == Target::kLocal || inputs_.uses_existing_allocation) {
    const auto origin = loaded_.spec.origins.find("components"_key);
    return tl::unexpected(std::vector<Diagnostic>{
        {Diagnostic::Severity::kError,
         origin == loaded_.spec.origins.end() ? Origin{} : origin->second,
         inputs_.uses_existing_allocation
             ? "components: a run in an allocation that you already have starts only one program; "
               "submit the spec as a job of its own"
             : "components: dlrun run starts one program on this machine, and components need "
               "Slurm: use dlrun submit",
         ""}});
  }
  LaunchPlan plan = plan_whole();
  std::vector<std::size_t> order = layout_.components_in_part_order;
  if (!layout_.is_hetjob) std::sort(order.begin(), order.end());
  for (const std::size_t index : order) plan.components.push_back(plan_component(index));
  for (const PlannedComponent& component : plan.components) merge_prologue(plan, component);
  merge_containers(plan);
  if (!errors_.empty()) return tl::unexpected(std::move(errors_));
  return plan;
}

LaunchPlan ComponentPlanner::plan_whole() {
  Planner whole(requesting_spec_, inputs_);
  whole.count_resources();
  whole.check_runs_folder();
  whole.plan_prologue();
  whole.plan_.secrets = loaded_.spec.environment.secrets;
  whole.add_lead_options();
  whole.add_notify_options();
  whole.add_track_options();
  whole.plan_directives();
  if (!layout_.is_hetjob) {
    for (PlannedOption& directive : whole.plan_.directives) {
      if (is_option_of(kOptionsFromAllComponents, directive.option))
        directive.comment = "components";
    }
  }
  if (whole.plan_.server) whole.check_rest_directives();
  plan_later_parts(whole.plan_);
  add_errors(std::move(whole.errors_), "");
  return std::move(whole.plan_);
}

void ComponentPlanner::plan_later_parts(LaunchPlan& plan) {
  if (!layout_.is_hetjob) return;
  for (std::size_t i = 1; i < layout_.components_in_part_order.size(); ++i) {
    Planner planner(specs_[layout_.components_in_part_order[i]], inputs_);
    planner.count_resources();
    planner.plan_directives();
    std::erase_if(planner.plan_.directives, [](const PlannedOption& directive) {
      return !is_option_of_part(directive.option);
    });
    add_requested(plan.requested, planner.plan_.requested);
    plan.later_parts.push_back(std::move(planner.plan_.directives));
  }
}

std::string ComponentPlanner::comment_of_key(std::size_t index, std::string_view key) const {
  const ComponentSpec& component = loaded_.spec.components[index];
  const bool is_own =
      std::find(component.keys.begin(), component.keys.end(), key) != component.keys.end();
  if (!is_own) return std::string(key);
  return fmt::format("{}: {}", component.name, key.substr(key.rfind('.') + 1));
}

std::vector<PlannedOption> ComponentPlanner::lead_options(std::size_t index) const {
  const ComponentSpec& component = loaded_.spec.components[index];
  const JobSpec& spec = specs_[index].spec;
  std::vector<PlannedOption> options;
  const auto add = [&](std::string_view option, std::optional<std::string> value,
                       std::string_view key) {
    options.push_back({std::string(option), std::move(value),
                       key.empty() ? "" : fmt::format("{}: {}", component.name, key)});
  };
  const auto number = [](std::int64_t value) { return fmt::format("{}", value); };
  add("--component", component.name, "name");
  add("--role", component.is_service ? "service" : "main", "role");
  if (component.ready) {
    const ReadySpec& ready = *component.ready;
    if (ready.http) add("--ready-http", ready.http, "ready.http");
    if (ready.tcp) add("--ready-tcp", std::nullopt, "ready.tcp");
    if (ready.timeout_s) add("--ready-timeout", number(*ready.timeout_s), "ready.timeout");
  }
  if (component.retry_max.value_or(0) > 0)
    add("--component-retry", number(*component.retry_max), "retry.max");
  for (const std::string& name : component.after) add("--after", name, "after");
  const std::int64_t nodes = nodes_of(spec);
  add("--component-nodes", number(nodes), "");
  add("--component-ranks", number(nodes * ranks_per_node(spec).value_or(1)), "");
  if (layout_.is_hetjob) {
    const auto part = std::find(layout_.components_in_part_order.begin(),
                                layout_.components_in_part_order.end(), index);
    add("--het-group", number(part - layout_.components_in_part_order.begin()), "");
  } else {
    add("--component-first-node", number(layout_.group_of(index).first_node),
        component.shares.empty() ? "" : "shares");
  }
  return options;
}

std::vector<PlannedOption> ComponentPlanner::step_options(std::size_t index) const {
  const Resources& r = specs_[index].spec.resources;
  std::vector<PlannedOption> options;
  const auto add = [&](std::string_view option, std::optional<std::string> value,
                       std::string_view key) {
    options.push_back({std::string(option), std::move(value), std::string(key)});
  };
  if (!layout_.is_hetjob)
    add("--exact", std::nullopt, "the step leaves the rest of its nodes to others");
  const std::int64_t nodes = nodes_of(specs_[index].spec);
  const std::int64_t ranks = ranks_per_node(specs_[index].spec).value_or(1);
  add("--nodes", fmt::format("{}", nodes), comment_of_key(index, "resources.nodes"_key));
  add("--ntasks", fmt::format("{}", nodes * ranks), "");
  add("--ntasks-per-node", fmt::format("{}", ranks),
      comment_of_key(index, "resources.tasks_per_node"_key));
  add("--cpus-per-task", fmt::format("{}", r.cpus_per_task.value_or(1)),
      comment_of_key(index, "resources.cpus_per_task"_key));
  const std::string key_of_gpus = comment_of_key(index, "resources.gpus_per_node"_key);
  if (r.gpus_per_node && r.gpus_per_node->count > 0) {
    add("--gres", "gpu:" + format_gpus(*r.gpus_per_node), key_of_gpus);
  } else if (may_have_gpus_) {  // by default, a step gets all GPUs of the job
    add("--gpus-per-node", "0", key_of_gpus);
  }
  if (r.mem) {
    add("--mem", r.mem, comment_of_key(index, "resources.mem"_key));
  } else if (r.mem_per_cpu) {
    add("--mem-per-cpu", r.mem_per_cpu, comment_of_key(index, "resources.mem_per_cpu"_key));
  }
  if (r.distribution)
    add("--distribution", r.distribution, comment_of_key(index, "resources.distribution"_key));
  return options;
}

bool ComponentPlanner::is_first_main(std::size_t index) const {
  const auto& components = loaded_.spec.components;
  const auto first = std::find_if(components.begin(), components.end(),
                                  [](const ComponentSpec& one) { return !one.is_service; });
  return first != components.end() && &*first == &components[index];
}

bool ComponentPlanner::needs_port(std::size_t index, const LaunchPlan& plan) const {
  if (loaded_.spec.components[index].is_service) return true;
  for (const PlannedOption& option : plan.rank_options) {
    if (option.option == "--word" && contains_port_field(option.value.value_or(""))) return true;
  }
  return std::any_of(plan.rank_templates.begin(), plan.rank_templates.end(),
                     [](const PlannedVariable& one) { return contains_port_field(one.value); });
}

void ComponentPlanner::move_own_variables(std::size_t index, LaunchPlan& plan) const {
  for (const auto& [name, value] : loaded_.spec.components[index].own.environment.vars) {
    std::erase_if(plan.prologue.vars, [&](const PlannedVariable& one) { return one.name == name; });
    plan.rank_vars.push_back({name, value, comment_of_key(index, "environment.vars." + name), false,
                              Origin::Kind::kFile});
  }
}

PlannedComponent ComponentPlanner::plan_component(std::size_t index) {
  const std::string& name = loaded_.spec.components[index].name;
  // `exclusive` and the options of `slurm` can give GPUs to the whole job. The step gets only the
  // GPUs that the component requests, or none.
  LoadedSpec spec = specs_[index];
  spec.spec.resources.exclusive.reset();
  spec.spec.slurm.clear();
  Planner planner(spec, inputs_);
  planner.count_resources();
  planner.check_dlrun_mounts();
  planner.plan_prologue();
  move_own_variables(index, planner.plan_);
  planner.plan_rank_agent();
  planner.plan_program();
  if (is_first_main(index)) planner.add_wandb_variables();
  planner.plan_step();
  planner.check_pmi();
  planner.check_container_save();
  PlannedComponent component{name, lead_options(index), std::move(planner.plan_)};
  if (needs_port(index, component.plan)) component.options.push_back({"--port-count", "1", ""});
  // The first two options are --export and --kill-on-bad-exit.
  auto& step = component.plan.step;
  std::erase_if(step, [](const PlannedOption& one) { return one.option == "--cpus-per-task"; });
  const auto own = step_options(index);
  step.insert(step.begin() + 2, own.begin(), own.end());
  for (const PlannedOption& option : component.plan.rank_options) {
    if (option.value == "+++")
      planner.add_error(option.comment,
                        fmt::format("{}: dlrun reads the value '+++' as the start of the next "
                                    "component; choose another value",
                                    option.comment));
  }
  add_errors(std::move(planner.errors_), fmt::format("component '{}': ", name));
  return component;
}

void ComponentPlanner::merge_prologue(LaunchPlan& plan, const PlannedComponent& component) {
  Prologue& p = plan.prologue;
  const Prologue& other = component.plan.prologue;
  for (const PlannedVariable& variable : other.vars) {
    const auto known = std::find_if(p.vars.begin(), p.vars.end(), [&](const PlannedVariable& one) {
      return one.name == variable.name;
    });
    if (known == p.vars.end()) {
      p.vars.push_back(variable);
    } else if (variable.is_about_gpus && known->is_about_gpus && known->value == "void") {
      known->value = variable.value;  // another component does have GPUs
    }
  }
  if (other.driver_capabilities_image) {
    const bool is_same = !p.driver_capabilities_image ||
                         *p.driver_capabilities_image == *other.driver_capabilities_image;
    p.driver_capabilities_image = is_same ? *other.driver_capabilities_image : std::string();
  }
  // The script exports NVIDIA_DRIVER_CAPABILITIES once for all components. If a component sets this
  // variable, the script must not replace its value by the one for an image.
  if (has_variable(p.vars, "NVIDIA_DRIVER_CAPABILITIES")) p.driver_capabilities_image.reset();
  for (const Prologue::Folder& folder : other.folders_to_make) {
    const bool is_known =
        std::any_of(p.folders_to_make.begin(), p.folders_to_make.end(),
                    [&](const Prologue::Folder& one) { return one.path == folder.path; });
    if (!is_known) p.folders_to_make.push_back(folder);
  }
  for (const PlannedVariable& variable : component.plan.step_vars) {
    if (!has_variable(plan.step_vars, variable.name)) plan.step_vars.push_back(variable);
  }
}

void ComponentPlanner::merge_containers(LaunchPlan& plan) {
  const auto refuse = [&](std::string_view message) {
    add_errors({{Diagnostic::Severity::kError,
                 loaded_.spec.origins.contains("components"_key)
                     ? loaded_.spec.origins.find("components"_key)->second
                     : Origin{},
                 std::string(message), ""}},
               "");
  };
  std::set<std::string> commands;
  for (const PlannedComponent& component : plan.components) {
    const LaunchPlan& own_plan = component.plan;
    if (own_plan.enter_script.batch.empty()) continue;
    commands.insert(own_plan.enter_script.batch);
    plan.enter_script.batch = own_plan.enter_script.batch;
    plan.enter_script.reports_failure = own_plan.enter_script.reports_failure;
    if (own_plan.runtime == "enroot" && layout_.is_hetjob)
      refuse(
          "components: without pyxis, enroot makes its containers on the nodes of one part of a "
          "heterogeneous job only; use container.runtime: pyxis");
  }
  if (commands.size() > 1)
    refuse(
        "components: the components have different containers, which only container.runtime: pyxis "
        "can start in one job; give all of them the same container");
  // An interactive session starts on the first node, in the container of the first component there.
  const std::size_t first = layout_.is_hetjob ? 0 : layout_.groups.front().components.front();
  const LaunchPlan& own_plan = plan.components[first].plan;
  plan.container = own_plan.container;
  plan.runtime = own_plan.runtime;
  plan.rank_vars = own_plan.rank_vars;
  plan.enter_script.session = own_plan.enter_script.session;
  plan.enter_script.attach = own_plan.enter_script.attach;
  plan.enter_script.words = own_plan.enter_script.words;
}

void ComponentPlanner::add_errors(std::vector<Diagnostic> errors, std::string_view prefix) {
  for (Diagnostic& error : errors) {
    if (!reported_.emplace(error.where.line, error.message).second) continue;
    error.message.insert(0, prefix);
    errors_.push_back(std::move(error));
  }
}

}  // namespace dlrun
