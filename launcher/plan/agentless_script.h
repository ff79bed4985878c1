#pragma once
// The parts of a script that runs without the agent (launch.agent: false). Only render.cc includes
// this file.

#include <string>

#include "launcher/plan/plan.h"

namespace dlrun {

/// Returns the lines that choose rank 0's port, and that set the shell variable `dlrun_task` to the
/// commands of each task.
[[nodiscard]] std::string agentless_task_text(const LaunchPlan& plan);

/// Returns the script's last line, which executes the step.
[[nodiscard]] std::string agentless_last_line(const LaunchPlan& plan);

}  // namespace dlrun
