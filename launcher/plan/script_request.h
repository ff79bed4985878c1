#pragma once
// What a job script asks Slurm for, whoever wrote or edited it.

#include <string_view>

#include "launcher/plan/plan.h"

namespace dlrun {

/// The numbers of its #SBATCH lines, as make_plan counts a spec's; absent where they are Slurm's to
/// decide, and all of them for a job array and a heterogeneous job.
[[nodiscard]] Requested requested_of_script(std::string_view script);

}  // namespace dlrun
