#pragma once
// Renders bash arrays of a script: on each line one argument, or an option and its value, with the
// key that sets it. The last line of the script combines the arrays into one command. `array`: the
// name of the array. Only the files that render scripts include this file.

#include <string>
#include <string_view>

#include "launcher/plan/plan.h"

namespace dlrun {

/// Renders the words that precede a command to start the command in its container. Returns "" if
/// there is no container, or if options of srun enter the container.
[[nodiscard]] std::string enter_text(const LaunchPlan& plan,
                                     std::string_view array = "dlrun_enter");

/// Renders the command line of the rank agent without the ranks' program.
[[nodiscard]] std::string rank_text(const LaunchPlan& plan, std::string_view array = "dlrun_rank");

/// Renders the command line of the ranks' program.
[[nodiscard]] std::string program_text(const LaunchPlan& plan,
                                       std::string_view array = "dlrun_program");

}  // namespace dlrun
