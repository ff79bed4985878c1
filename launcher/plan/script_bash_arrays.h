#pragma once
// Renders bash arrays of a script. Each line has words that belong together, such as an option and
// its value, with the key that sets them; a long command has one line for each word. The last line
// of the script combines the arrays into one command. `array`: the name of the array. Only the
// files that render scripts include this file.

#include <string>
#include <string_view>

#include "launcher/plan/plan.h"

namespace dlrun {

/// Renders the words that stand before a command and start it in the container. Returns "" if there
/// is no container, or if srun itself starts the tasks in the container.
[[nodiscard]] std::string enter_text(const LaunchPlan& plan,
                                     std::string_view array = "dlrun_enter");

/// Renders the command line of the rank agent without the ranks' program.
[[nodiscard]] std::string rank_text(const LaunchPlan& plan, std::string_view array = "dlrun_rank");

/// Renders the command line of the ranks' program.
[[nodiscard]] std::string program_text(const LaunchPlan& plan,
                                       std::string_view array = "dlrun_program");

}  // namespace dlrun
