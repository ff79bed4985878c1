#pragma once
// The cost of a job or a sweep as text. Pure functions.

#include <string>

#include "launcher/plan/sweep_plan.h"

namespace dlrun {

/// Returns "at most 2.7 GPU-hours, 8 core-hours". Leaves out a part that is unknown because Slurm
/// chooses the number of GPUs or cores, or the time limit. Returns "" if both parts are unknown.
[[nodiscard]] std::string cost_text(const Requested& requested);

/// Returns "6 points, 2 at a time; at most 2.7 GPU-hours altogether"; for a search "the program
/// chooses the points; at most 2.7 GPU-hours each", without the hours if the program also chooses
/// resources.
[[nodiscard]] std::string points_and_cost_text(const SweepPlan& sweep);

}  // namespace dlrun
