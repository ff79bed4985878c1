#include "runtime/agent/component_step.h"

#include <algorithm>
#include <cstdint>

#include "common/hostlist.h"
#include "common/text.h"

namespace dlrun::agent {
namespace {

/// Returns the component's nodes as a node list.
Result<std::string> nodes_of_component(const ComponentOptions& component, const Env& env) {
  DLRUN_TRY_ASSIGN(const auto nodes, expand_hostlist(env.get_or("SLURM_JOB_NODELIST", "")));
  const auto first = static_cast<std::size_t>(component.first_node.value_or(0));
  const auto count = static_cast<std::size_t>(component.node_count);
  if (first + count > nodes.size()) {
    return fail(Errc::kUsage,
                "component '{}' needs the nodes {} to {} of the job, which has {}: ask for more "
                "nodes (sbatch --nodes)",
                component.name, first + 1, first + count, nodes.size());
  }
  const auto begin = nodes.begin() + static_cast<std::ptrdiff_t>(first);
  return compress_hostlist(
      std::vector<std::string>(begin, begin + static_cast<std::ptrdiff_t>(count)));
}

/// Returns true if the srun options of the component contain --gpus-per-node=0.
bool has_no_gpus(const ComponentOptions& component) {
  // The options of srun come before the command that it starts: dlrun-agent rank ...
  const auto end =
      std::find(component.srun_arguments.begin(), component.srun_arguments.end(), "rank");
  return std::find(component.srun_arguments.begin(), end, "--gpus-per-node=0") != end;
}

}  // namespace

Result<std::vector<std::string>> component_command(const ComponentOptions& component,
                                                   const Env& env) {
  std::vector<std::string> command{"srun", "--job-name=" + component.name};
  if (component.het_group) {
    command.push_back("--het-group=" + std::to_string(*component.het_group));
  } else {
    DLRUN_TRY_ASSIGN(const auto nodes, nodes_of_component(component, env));
    command.push_back("--nodelist=" + nodes);
  }
  command.insert(command.end(), component.srun_arguments.begin(), component.srun_arguments.end());
  return command;
}

std::string nodes_of_job(const Env& env) {
  constexpr std::int64_t kMostParts = 128;
  const auto parts = parse_int(env.get_or("SLURM_HET_SIZE", "0")).value_or(0);
  if (parts < 2) return env.get_or("SLURM_JOB_NODELIST", "");
  std::string nodes;
  for (std::int64_t part = 0; part < std::min(parts, kMostParts); ++part) {
    const auto nodes_of_part = env.get_or(fmt::format("SLURM_JOB_NODELIST_HET_GROUP_{}", part), "");
    if (!nodes_of_part.empty()) nodes += (nodes.empty() ? "" : ",") + nodes_of_part;
  }
  return nodes;
}

void set_component_env(Env& env, const ComponentOptions& component, int held_port) {
  // The script also unsets these variables, but an edited script may have lost these lines.
  env.remove_matching({"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_*", "SLURM_TASKS_PER_NODE",
                       "SLURM_CPUS_PER_*", "SRUN_CPUS_PER_TASK", "SLURM_GPUS*", "SLURM_GRES",
                       "SLURM_JOB_GPUS", "SLURM_MEM_PER_*", "SLURM_TRES_PER_TASK",
                       "SLURM_DISTRIBUTION", "SLURM_EXACT", "SLURM_OVERLAP"},
                      {});
  env.set("DLRUN_COMPONENT", component.name);
  if (held_port > 0) env.set("DLRUN_HELD_PORT", std::to_string(held_port));
  if (has_no_gpus(component)) env.set("DLRUN_HIDES_GPUS", "1");
}

}  // namespace dlrun::agent
