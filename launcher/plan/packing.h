#pragma once
// sweep.pack: one job runs several points of a sweep side by side. The job requests the resources
// of all its points. Each point has the same script as without sweep.pack. Environment variables,
// which srun and the agent read, limit each script to one point's share of the job.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan/plan.h"

namespace dlrun {

/// The distribution of an array's points over its tasks.
struct Packing {
  std::size_t pack = 1;         ///< number of points that one task runs
  std::size_t point_count = 0;  ///< number of points of the array
  /// From slurm_variables_of_point(); empty without sweep.pack.
  std::vector<PlannedVariable> point_variables;

  /// Returns the number of tasks.
  [[nodiscard]] std::size_t task_count() const { return (point_count + pack - 1) / pack; }
  /// Returns how many tasks may run at the same time if at most max_parallel points may run at the
  /// same time; at least 1.
  [[nodiscard]] std::int64_t max_parallel_tasks(std::int64_t max_parallel) const {
    return std::max<std::int64_t>(max_parallel / static_cast<std::int64_t>(pack), 1);
  }
};

/// Returns the spec with the resources of `pack` points. Requires a checked spec, whose points run
/// on one node each.
[[nodiscard]] JobSpec packed_spec(const JobSpec& spec, std::int64_t pack);

/// Returns the variables of Slurm that limit the step of one point to the resources of the point.
/// loaded: the point's spec, without the resources of other points.
[[nodiscard]] std::vector<PlannedVariable> slurm_variables_of_point(const LoadedSpec& loaded);

/// Renders the commands of a task that starts several points and waits for all of them. sweep_line:
/// the line that defines the variable dlrun_sweep.
[[nodiscard]] std::string packed_commands(const Packing& packing, std::string_view sweep_line);

}  // namespace dlrun
