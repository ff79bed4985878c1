#pragma once
// The plan of a run, for sessions beside its ranks.

#include <filesystem>

#include "cli/cli.h"
#include "launcher/plan/plan.h"

namespace dlrun {

/// Returns the run's plan. For a script that carries no spec, says so and returns an empty plan.
[[nodiscard]] Result<LaunchPlan> plan_of_run(const Cli& cli, const std::filesystem::path& run);

}  // namespace dlrun
