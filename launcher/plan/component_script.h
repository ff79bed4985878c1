#pragma once
// Renders the end of the script of a job with components.

#include <string>
#include <string_view>

#include "launcher/plan/plan.h"

namespace dlrun {

/// Renders the bash arrays of all components, and the line that starts lead with them. lead: the
/// command with its options for the whole run.
[[nodiscard]] std::string components_text(const LaunchPlan& plan, std::string_view lead);

/// Returns the #SBATCH line that starts the next part of a heterogeneous job.
[[nodiscard]] std::string_view part_separator_line();

}  // namespace dlrun
