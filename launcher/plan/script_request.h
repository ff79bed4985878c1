#pragma once
// Finds out which resources a job script requests, even one that dlrun did not write.

#include <string_view>

#include "launcher/plan/plan.h"

namespace dlrun {

/// Returns the resources in the script's #SBATCH lines, counted as make_plan counts those
/// of a spec. Numbers that are left to Slurm are absent; all are absent for a job array and
/// for a heterogeneous job.
[[nodiscard]] Requested requested_of_script(std::string_view script);

}  // namespace dlrun
