#pragma once
// Rewrites an srun command line for a step on some of the job's nodes. No I/O.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dlrun::agent {

/// Parses SLURM_TASKS_PER_NODE: "2(x3),1" becomes {2, 2, 2, 1}, the tasks of each node in order.
/// Returns nullopt for other text, and for a number beyond one million.
[[nodiscard]] std::optional<std::vector<int>> parse_tasks_per_node(std::string_view text);

/// The nodes of a job and their numbers of tasks, from Slurm's environment variables.
struct JobLayout {
  std::vector<std::string> nodes{};      ///< SLURM_JOB_NODELIST
  std::vector<int> task_counts{};        ///< SLURM_TASKS_PER_NODE, one per node; empty if unknown
  std::optional<int> ntasks_per_node{};  ///< SLURM_NTASKS_PER_NODE
};

/// Returns the srun command line argv, changed to use only the nodes in `kept`. Replaces srun's
/// options for nodes and for the numbers of nodes and tasks, at any position. If argv has the
/// option `--ntasks-per-node`, keeps this option, and its value is the number of tasks of each
/// node. Without the option, a node's number of tasks is the one in job.task_counts, else
/// job.ntasks_per_node, else one.
[[nodiscard]] std::vector<std::string> step_on_nodes(const std::vector<std::string>& argv,
                                                     const JobLayout& job,
                                                     const std::vector<std::string>& kept);

}  // namespace dlrun::agent
