#pragma once
// The parts of a script that does without the agent. Private to rendering.

#include <string>

#include "launcher/plan/plan.h"

namespace dlrun {

/// Chooses rank 0's port and writes what each task does, as the shell variable `task`.
[[nodiscard]] std::string plain_rank_text(const LaunchPlan& plan);

/// The script's last line: it becomes the step.
[[nodiscard]] std::string plain_last_line(const LaunchPlan& plan);

}  // namespace dlrun
