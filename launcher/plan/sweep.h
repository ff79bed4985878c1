#pragma once
// A sweep, decided: every point planned and rendered by itself, and the job arrays that run them.
// Pure, as all of plan/.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "launcher/plan/plan.h"

namespace dlrun {

struct PlannedPoint {
  SweepPoint values;
  std::string script;    ///< the point's own job: sbatch takes it by itself
  std::string resolved;  ///< its resolved spec, without the sweep
  Requested requested;
  std::size_t array = 0, task = 0;  ///< which array runs it, as which task
};

/// One job array. Points whose #SBATCH lines differ (a sweep over resources) cannot share one, nor
/// can more than Slurm's MaxArraySize.
struct PlannedArray {
  std::string script;  ///< what sbatch gets: each task starts its own point's script
  std::size_t tasks = 0;
  Requested requested;  ///< of one task
};

struct SweepPlan {
  std::vector<std::string> keys;     ///< all that points set, in the order of the spec
  std::vector<PlannedPoint> points;  ///< in the sweep's order
  std::vector<PlannedArray> arrays;
  std::optional<std::int64_t> max_parallel;
};

struct SweepLimits {
  std::size_t max_array_size = 1001;  ///< Slurm's default: task ids are below it
};

/// loaded: request's spec, with a sweep that load_spec accepted. All points are checked; the errors
/// of the first kinds found are returned, each naming a point.
[[nodiscard]] tl::expected<SweepPlan, std::vector<Diagnostic>> plan_sweep(
    const LoadRequest& request, const LoadedSpec& loaded, const PlanInputs& inputs,
    const SweepLimits& limits);

/// GPU-hours and core-hours of all points together; nothing where one of them leaves it to Slurm.
[[nodiscard]] std::optional<double> sum_of_hours(const SweepPlan& sweep,
                                                 std::optional<double> (*hours)(const Requested&));

}  // namespace dlrun
