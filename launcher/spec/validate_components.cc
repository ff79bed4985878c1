// Checks of a job with several programs: names, roles, order, shared nodes, heterogeneous jobs.

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "common/hostlist.h"
#include "common/text.h"
#include "launcher/spec/component_layout.h"
#include "launcher/spec/component_specs.h"
#include "launcher/spec/derived.h"
#include "launcher/spec/diagnostic_text.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/validator.h"
#include "launcher/spec/value_syntax.h"

namespace dlrun {
namespace {

constexpr std::string_view kPortField = "{port}";
/// The argument that separates the components in lead's command line.
constexpr std::string_view kSeparatorOfComponents = "+++";

/// Options of srun that choose nodes and resources. dlrun makes this choice for each component.
constexpr std::array<std::string_view, 18> kRefusedStepOptions{
    "exact",    "overlap",       "exclusive",     "nodes",       "ntasks",      "ntasks-per-node",
    "nodelist", "exclude",       "relative",      "gres",        "gpus",        "gpus-per-node",
    "mem",      "gpus-per-task", "tres-per-task", "mem-per-cpu", "mem-per-gpu", "het-group"};

[[nodiscard]] bool has_port_field(const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return word.find(kPortField) != std::string::npos;
  });
}

/// Returns the names of components for a message: "'server' and 'client'".
[[nodiscard]] std::string quoted_names_of(const JobSpec& spec,
                                          const std::vector<std::size_t>& indices) {
  std::vector<std::string> names;
  for (const std::size_t index : indices)
    names.push_back(fmt::format("'{}'", spec.components[index].name));
  return join(names, " and ");
}

}  // namespace

void Validator::add_component_finding(Diagnostic::Severity severity, std::size_t index,
                                      std::string_view key, std::string_view message) {
  const ComponentSpec& component = spec_.components[index];
  const Origins& origins = component.own.origins;
  auto origin = origins.find(key);
  if (origin == origins.end()) origin = origins.find(fmt::format("component.{}", key));
  if (origin == origins.end()) origin = origins.find("component");
  findings_.push_back({severity,
                       origin == origins.end() ? fallback_origin_ : origin->second,
                       fmt::format("component '{}': {}", component.name, message),
                       {},
                       "components"_key});
}

void Validator::check_components() {
  check_time();
  check_sweep();
  check_submit();
  if (spec_.components.empty()) return;  // refused when they were read
  check_keys_of_whole_job();
  check_notify();
  check_track();
  check_download_section();
  check_component_names();
  check_after_names();
  const auto specs = loaded_specs_of_components(loaded_);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    check_keys_and_role(i, specs[i]);
    check_command_and_port(i, specs[i]);
    check_step_options(i, specs[i]);
  }
  check_trainers(specs);
  check_shares(specs);
  const ComponentLayout layout = layout_of(spec_, specs);
  check_hetjob(layout);
  check_nodelist_of_components(layout);
  for (const NodeGroup& group : layout.groups) check_shared_nodes(specs, group);
  check_each_component(specs);
}

void Validator::check_keys_of_whole_job() {
  using Reason = std::pair<const char*, std::string_view>;
  constexpr std::string_view kGiveTasks = "give each component nodes and tasks_per_node";
  constexpr std::string_view kGiveGpus =
      "give gpus_per_node, which each component inherits or replaces";
  for (const auto& [key, why] :
       {Reason{"resources.ntasks"_key, kGiveTasks}, Reason{"resources.gpus"_key, kGiveGpus},
        Reason{"resources.gpus_per_task"_key, kGiveGpus}, Reason{"resources.gres"_key, kGiveGpus},
        Reason{"resources.cpus_per_gpu"_key, "give cpus_per_task"},
        Reason{"resources.mem_per_gpu"_key, "give mem"},
        Reason{"resources.spare_nodes"_key, "each component has nodes of its own"},
        Reason{"retry.grow.mem"_key, "each component has memory of its own"},
        Reason{"sweep.pack"_key, "the points of a job share one node"}}) {
    if (has(key)) error(key, fmt::format("{} cannot be given with components: {}", key, why));
  }
  if (!spec_.launch.agent.value_or(true))
    error("launch.agent"_key,
          "launch.agent: false: only the agent can start several components and watch them");
  const bool has_main = std::any_of(spec_.components.begin(), spec_.components.end(),
                                    [](const ComponentSpec& one) { return !one.is_service; });
  if (!has_main)
    error("components"_key,
          "components: every component is a service, so that the job would never end; one of them "
          "must have role: main");
}

void Validator::check_component_names() {
  for (std::size_t i = 0; i < spec_.components.size(); ++i) {
    const std::string& name = spec_.components[i].name;
    for (std::size_t other = 0; other < i; ++other) {
      const std::string& earlier = spec_.components[other].name;
      if (name_in_variables(name) != name_in_variables(earlier)) continue;
      refuse_component(i, "name",
                       name == earlier ? "another component has this name; names must differ"
                                       : fmt::format("component '{}' has the same variables, "
                                                     "DLRUN_COMPONENT_{}_ADDR; choose another name",
                                                     earlier, name_in_variables(name)));
      break;
    }
  }
}

void Validator::check_keys_and_role(std::size_t index, const LoadedSpec& single) {
  const ComponentSpec& component = spec_.components[index];
  const Origins& own = component.own.origins;
  if (own.contains("launch.agent"_key))
    refuse_component(index, "launch.agent"_key,
                     "launch.agent is for the whole job; give it at the top of the spec");
  if (const auto& nodes = single.spec.resources.nodes; nodes && nodes->min != nodes->max)
    refuse_component(
        index, "resources.nodes"_key,
        fmt::format("nodes is {}; a component needs one number of nodes", format_nodes(*nodes)));
  if (!single.spec.resources.cpus_per_task)
    add_component_finding(Diagnostic::Severity::kWarning, index, "cpus_per_task",
                          "cpus_per_task is not given: each of its ranks has one CPU");
  if (component.is_service) return;
  if (component.ready && (component.ready->http || component.ready->tcp))
    refuse_component(index, "ready",
                     "ready: http and tcp are for a service; a main component is ready once all "
                     "its ranks have joined");
  if (component.retry_max.value_or(0) > 0)
    refuse_component(index, "retry",
                     "retry: only a service restarts alone; retry.max at the top of the spec "
                     "restarts the whole job");
}

void Validator::check_command_and_port(std::size_t index, const LoadedSpec& single) {
  const ComponentSpec& component = spec_.components[index];
  const auto& command = single.spec.launch.command;
  if (std::find(command.begin(), command.end(), kSeparatorOfComponents) != command.end())
    refuse_component(index, "launch.command"_key,
                     "launch.command: dlrun reads an argument '+++' as the start of the next "
                     "component; use a shell: [bash, -c, 'program +++']");
  const bool has_field = has_port_field(command);
  if (has_field && !component.is_service)
    refuse_component(
        index, "launch.command"_key,
        "launch.command: {port} is the reserved port of a service; give role: service, "
        "or take the address of a service from DLRUN_COMPONENT_NAME_ADDR");
  const bool checks_port = component.ready && (component.ready->http || component.ready->tcp);
  if (component.is_service && checks_port && !has_field && !has_port_field(single.preset.words))
    add_component_finding(
        Diagnostic::Severity::kWarning, index, "ready",
        fmt::format("ready checks the port that dlrun reserves, but launch.command does not "
                    "contain {{port}}; the program must take the port from DLRUN_COMPONENT_{}_ADDR",
                    name_in_variables(component.name)));
}

void Validator::check_trainers(const std::vector<LoadedSpec>& specs) {
  bool has_trainer = false;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (!specs[i].preset.is_trainer) continue;
    if (has_trainer)
      refuse_component(
          i, "launch.preset"_key,
          "launch.preset: another component is also the bundled trainer, and both would "
          "save to checkpoint.dir; only one component can be the trainer");
    has_trainer = true;
  }
}

void Validator::check_step_options(std::size_t index, const LoadedSpec& single) {
  for (const SlurmOption& option : single.spec.launch.srun) {
    if (std::find(kRefusedStepOptions.begin(), kRefusedStepOptions.end(), option.name) ==
        kRefusedStepOptions.end())
      continue;
    refuse_component(index, "launch.srun." + option.name,
                     fmt::format("launch.srun: the step of a component cannot have --{}, because "
                                 "dlrun gives each component its nodes and resources; use the keys "
                                 "of the component",
                                 option.name));
  }
}

void Validator::check_component_exists(std::size_t index, std::string_view key,
                                       const std::string& name) {
  if (find_component(spec_, name)) return;
  std::vector<std::string_view> names;
  for (const ComponentSpec& one : spec_.components) names.push_back(one.name);
  const auto similar = nearest(name, names);
  refuse_component(index, key,
                   fmt::format("{}: there is no component '{}'{}", key, printable(name),
                               similar ? fmt::format("; did you mean '{}'?", *similar) : ""));
}

void Validator::check_after_names() {
  for (std::size_t i = 0; i < spec_.components.size(); ++i) {
    for (const std::string& name : spec_.components[i].after)
      check_component_exists(i, "after", name);
  }
  const auto cycle = find_waiting_cycle(spec_);
  if (cycle.empty()) return;
  const auto first = find_component(spec_, cycle.front());
  refuse_component(first.value_or(0), "after",
                   fmt::format("after: the components wait for each other, so that none would "
                               "start: {}",
                               join(cycle, " -> ")));
}

void Validator::check_shares(const std::vector<LoadedSpec>& specs) {
  for (std::size_t i = 0; i < spec_.components.size(); ++i) {
    const std::string& name = spec_.components[i].shares;
    if (name.empty()) continue;
    check_component_exists(i, "shares", name);
    const auto owner = find_component(spec_, name);
    if (!owner) continue;
    if (*owner == i) {
      refuse_component(i, "shares",
                       "shares: a component cannot share its own nodes; remove shares, or name "
                       "another component");
      continue;
    }
    if (!spec_.components[*owner].shares.empty()) {
      refuse_component(i, "shares",
                       fmt::format("shares: '{}' has no nodes of its own; name a component that "
                                   "does not share",
                                   name));
      continue;
    }
    const auto wanted = nodes_of(specs[i].spec), given = nodes_of(specs[*owner].spec);
    if (wanted > given)
      refuse_component(
          i, "shares",
          fmt::format("shares: the component has {} nodes, but '{}' has only {}; give nodes: {}",
                      wanted, name, given, given));
  }
}

void Validator::check_hetjob(const ComponentLayout& layout) {
  if (!layout.is_hetjob) {
    if (layout.differing_key.empty()) return;
    error(
        "hetjob"_key,
        fmt::format("hetjob is false, but the components differ in {}, which must be the same for "
                    "all nodes of one allocation; remove hetjob",
                    layout.differing_key));
    return;
  }
  // Without the key hetjob, the choice is automatic: the messages then point to the components.
  const std::string why =
      layout.differing_key.empty()
          ? std::string("hetjob is true")
          : fmt::format("the components differ in {}, which makes a heterogeneous job",
                        layout.differing_key);
  const std::string_view how_to_avoid =
      layout.differing_key.empty() ? "remove hetjob"
      : spec_.hetjob == "true"     ? "remove hetjob and give all components the same kind of nodes"
                                   : "give all components the same kind of nodes";
  const char* key = has("hetjob"_key) ? "hetjob"_key : "components"_key;
  if (spec_.components.size() < 2)
    error(key, "hetjob: a heterogeneous job has at least two components; this job has one");
  for (std::size_t i = 0; i < spec_.components.size(); ++i) {
    if (!spec_.components[i].shares.empty())
      refuse_component(
          i, "shares",
          fmt::format("shares: {}; the parts of a heterogeneous job have no node in common", why));
  }
  using Reason = std::pair<const char*, std::string_view>;
  for (const auto& [refused, reason] :
       {Reason{"resources.nodelist"_key, "Slurm would need a list for each part"},
        Reason{"environment.setup_node"_key,
               "setup_node would run on the nodes of one part only; use launch.command"}}) {
    if (has(refused)) error(refused, fmt::format("{}: {}: {}", refused, why, reason));
  }
  if (spec_.sweep.is_given())
    error(has("sweep.points"_key) ? "sweep.points"_key : "sweep.parameters"_key,
          fmt::format("sweep: {}, and Slurm has no arrays of such jobs; submit the points one by "
                      "one with --set, or {}",
                      why, how_to_avoid));
  if (spec_.submit.via == "slurmrestd")
    error(
        "submit.via"_key,
        fmt::format("submit.via: slurmrestd: {}; dlrun submits such a job with sbatch only", why));
}

void Validator::check_nodelist_of_components(const ComponentLayout& layout) {
  const auto listed = expand_hostlist(spec_.resources.nodelist.value_or(""));
  if (!listed || layout.is_hetjob) return;
  const std::set<std::string> distinct(listed->begin(), listed->end());
  if (static_cast<std::int64_t>(distinct.size()) > layout.nodes)
    error("resources.nodelist"_key,
          fmt::format("resources.nodelist has {} nodes, but the components have {}; the job must "
                      "have every node of the list",
                      distinct.size(), layout.nodes));
}

void Validator::check_shared_nodes(const std::vector<LoadedSpec>& specs, const NodeGroup& group) {
  if (group.components.size() < 2) return;
  const std::string names = quoted_names_of(spec_, group.components);
  for (const std::size_t member : group.components) {
    if (!request_of(specs[member].spec).mem_mib)
      refuse_component(member, "mem",
                       fmt::format("mem is missing: {} share nodes, and a component without mem "
                                   "would take all of a node's memory",
                                   names));
  }
  const std::size_t last = group.components.back();
  const Resources& first = specs[group.components.front()].spec.resources;
  const auto found = site_.partitions.find(first.partition.value_or(site_.default_partition));
  const PartitionProfile partition =
      found == site_.partitions.end() ? PartitionProfile{} : found->second;
  const NodeRequest& request = group.request;
  if (site_.max_gpus_per_node && request.gpus.count > *site_.max_gpus_per_node) {
    refuse_component(last, "shares",
                     fmt::format("shares: {} need {} GPUs on a node, but site '{}' has at most {}",
                                 names, request.gpus.count, site_.name, *site_.max_gpus_per_node));
  } else if (partition.gpus_per_node && request.gpus.count > *partition.gpus_per_node) {
    refuse_component(
        last, "shares",
        fmt::format("shares: {} need {} GPUs on a node, but a node of the partition has {}", names,
                    request.gpus.count, *partition.gpus_per_node));
  }
  if (partition.cpus_per_node && request.cpus > *partition.cpus_per_node)
    refuse_component(
        last, "shares",
        fmt::format("shares: {} need {} CPUs on a node, but a node of the partition has {}", names,
                    request.cpus, *partition.cpus_per_node));
  if (partition.mem_per_node_mib && request.mem_mib.value_or(0) > *partition.mem_per_node_mib)
    refuse_component(
        last, "shares",
        fmt::format("shares: {} need {} MiB on a node, but a node of the partition has {}", names,
                    *request.mem_mib, *partition.mem_per_node_mib));
}

void Validator::check_each_component(const std::vector<LoadedSpec>& specs) {
  std::set<std::pair<std::string, std::string>> seen;
  for (const Diagnostic& one : findings_) seen.emplace(describe(one.where), one.message);
  const auto add_new_findings = [&](std::vector<Diagnostic> found, std::string_view prefix) {
    for (Diagnostic& one : found) {
      // A warning about a key of `train` says that this component does not use the key. If another
      // component is the trainer and uses the key, the warning is left out.
      const bool is_unused_train_key = one.key.starts_with("train.") && !is_error(one);
      if (is_unused_train_key && runs_trainer(loaded_)) continue;
      if (!seen.emplace(describe(one.where), one.message).second) continue;
      one.message.insert(0, prefix);
      findings_.push_back(std::move(one));
    }
  };
  for (std::size_t i = 0; i < specs.size(); ++i) {
    Validator single(specs[i], refused_, correct_spellings_);
    const Origins& own = spec_.components[i].own.origins;
    if (const auto origin = own.find("component"); origin != own.end())
      single.fallback_origin_ = origin->second;
    single.check_exclusive_keys();
    single.check_ntasks();
    single.check_gpus();
    single.check_partition();
    single.check_container();
    single.check_launch();
    if (!runs_trainer(loaded_)) single.warn_of_unused_checkpoint_keys();
    single.check_preset();
    single.check_data();
    single.warn_of_secret_variables();
    add_new_findings(std::move(single.findings_),
                     fmt::format("component '{}': ", spec_.components[i].name));
  }
  // The checks of restarts and of nodes are about the whole job. Some of these checks ask whether
  // the job has GPUs, so a component with GPUs represents the job.
  const auto with_gpus = std::find_if(specs.begin(), specs.end(), [](const LoadedSpec& single) {
    return may_have_gpus(single.spec);
  });
  LoadedSpec representative = with_gpus == specs.end() ? specs.front() : *with_gpus;
  representative.spec.health = spec_.health;
  Validator whole(representative, refused_, correct_spellings_);
  whole.check_retry_and_health();
  add_new_findings(std::move(whole.findings_), "");
  check_environment(std::all_of(specs.begin(), specs.end(), [](const LoadedSpec& single) {
    return container_runtime(single.spec, single.site) != "none";
  }));
  const auto ranks_of = [](const LoadedSpec& single) {
    return nodes_of(single.spec) * ranks_per_node(single.spec).value_or(1);
  };
  const auto largest = std::max_element(specs.begin(), specs.end(),
                                        [&](const LoadedSpec& one, const LoadedSpec& other) {
                                          return ranks_of(one) < ranks_of(other);
                                        });
  Validator profiled(*largest, refused_, correct_spellings_);
  profiled.check_profile();
  add_new_findings(std::move(profiled.findings_), "");
}

}  // namespace dlrun
