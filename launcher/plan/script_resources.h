#pragma once
// Finds out which resources a job script requests. The script may come from dlrun or from a user.

#include <string_view>

#include "launcher/plan/plan.h"

namespace dlrun {

/// Returns the resources in the script's #SBATCH lines, counted as make_plan() counts the resources
/// of a spec. A number that Slurm chooses is absent. The numbers of a heterogeneous job are sums
/// over its parts, except for the time, which is that of the first part. For a job array, all
/// numbers are absent.
[[nodiscard]] Requested requested_of_script(std::string_view script);

}  // namespace dlrun
