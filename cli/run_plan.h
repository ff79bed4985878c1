#pragma once
// Makes the plan of an existing run again, for sessions beside its ranks.

#include <filesystem>

#include "cli/cli.h"
#include "launcher/plan/plan.h"

namespace dlrun {

/// Returns the run's plan. If the run's script contains no spec, prints a note and returns an empty
/// plan. Fails if the spec can no longer be read or planned.
[[nodiscard]] Result<LaunchPlan> plan_of_run(const Cli& cli, const std::filesystem::path& run);

}  // namespace dlrun
