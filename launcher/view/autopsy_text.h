#pragma once
// Formats the autopsy of a hang for people, on one screen: where in the code the ranks are.

#include <string>
#include <vector>

#include "launcher/runs/autopsy_groups.h"

namespace dlrun {

/// Returns the lines: a sentence about the ranks that are at another place in the code than most,
/// or about all ranks if they are at the same place; then the stacks of at most three groups.
/// If there are exactly two groups and the screen is wide enough, their stacks stand side by side.
/// columns: the width of the screen. Returns no lines for an autopsy without groups. The caller
/// escapes the lines.
[[nodiscard]] std::vector<std::string> autopsy_lines(const Autopsy& autopsy,
                                                     std::size_t columns = 100);

}  // namespace dlrun
