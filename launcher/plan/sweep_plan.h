#pragma once
// Plans a sweep: a plan and a script for every point, and the job arrays that run them.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "launcher/plan/plan.h"

namespace dlrun {

/// A planned point of a sweep.
struct PlannedPoint {
  SweepPoint values;
  std::string script;      ///< the point's job script, which can also be submitted by itself
  std::string resolved;    ///< the point's resolved spec, without the sweep
  std::string parameters;  ///< the text of parameters.json; empty: the point needs no such file
  Requested requested;
  bool uses_trainer = false;  ///< the point needs dlrun-trainer
  std::size_t array = 0;      ///< the index in SweepPlan::arrays of the array that runs the point
  /// The number of the point in its array; see SweepRecord::task_of().
  std::size_t point_in_array = 0;
};

/// One job array. Points with different #SBATCH lines (a sweep over resources) need different
/// arrays, and an array has at most Slurm's MaxArraySize tasks.
struct PlannedArray {
  /// The text for sbatch. Each task starts the scripts of its points.
  std::string script;
  std::size_t task_count = 0;
  Requested requested;  ///< the resources of one task
};

/// A planned sweep.
struct SweepPlan {
  std::vector<std::string> keys;     ///< all keys that points set, in the order of the spec
  std::vector<PlannedPoint> points;  ///< in the sweep's order
  std::vector<PlannedArray> arrays;  ///< none for Target::kLocal
  std::optional<std::int64_t> max_parallel;
  std::size_t pack = 1;  ///< number of points that one task runs
  /// The program of sweep.ask has not chosen the points yet; `points` then has one example.
  bool chooses_points_later = false;

  /// Returns true if a point needs dlrun-trainer.
  [[nodiscard]] bool uses_trainer() const;
};

struct SweepLimits {
  std::size_t max_array_size = 1001;  ///< Slurm's MaxArraySize, here its default
};

/// Plans every point. `loaded`: the result of load_spec(request), in which the caller may have
/// replaced the names of runs in `after` by paths. The message of an error tells which point
/// has it. An error that several points share is returned once. Planning stops after 20 errors. Two
/// points with the same script are an error, except in a search, whose program may propose a point
/// again. Ranges with fewer different points than sweep.random asks for are also an error.
[[nodiscard]] tl::expected<SweepPlan, std::vector<Diagnostic>> plan_sweep(
    const LoadRequest& request, const LoadedSpec& loaded, const PlanInputs& inputs,
    const SweepLimits& limits);

/// Removes the sweep from a point's loaded spec, so that the point is a run of its own. Keeps
/// sweep.stop_early, which may end the run early.
void drop_sweep(LoadedSpec& loaded);

/// Returns the GPU-hours or core-hours of all points together; nullopt if the hours of a point are
/// not known. hours: the function gpu_hours() or core_hours().
[[nodiscard]] std::optional<double> sum_of_hours(const SweepPlan& sweep,
                                                 std::optional<double> (*hours)(const Requested&));

}  // namespace dlrun
