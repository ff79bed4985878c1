#pragma once
// sweep.pack: one job runs several points of a sweep side by side. The job asks for the resources
// of all its points. Each point's script stays as it is: its share of the job is in the variables
// that srun and the agent read.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan/plan.h"

namespace dlrun {

/// The points that the tasks of an array run.
struct Packing {
  std::size_t pack = 1;                ///< points of one task
  std::size_t points = 0;              ///< points of the array
  std::vector<PlannedVariable> share;  ///< Slurm's variables for one point

  /// Returns the number of tasks.
  [[nodiscard]] std::size_t tasks() const { return (points + pack - 1) / pack; }
  /// Returns how many tasks run at most `points_at_once` points.
  [[nodiscard]] std::int64_t tasks_at_once(std::int64_t points_at_once) const {
    return std::max<std::int64_t>(points_at_once / static_cast<std::int64_t>(pack), 1);
  }
};

/// Returns the spec of a job that has room for `pack` points. Requires a checked spec: its points
/// run on one node.
[[nodiscard]] JobSpec packed_spec(const JobSpec& spec, std::int64_t pack);

/// Returns the variables that give a step its share of a job with several points.
[[nodiscard]] std::vector<PlannedVariable> share_of_point(const LoadedSpec& loaded);

/// Renders the commands of a task that starts several points and waits for all of them. sweep_line:
/// the line that defines dlrun_sweep.
[[nodiscard]] std::string packed_commands(const Packing& packing, std::string_view sweep_line);

}  // namespace dlrun
