#pragma once
// The lines of `dlrun top` above its table. Pure functions.

#include <cstddef>
#include <vector>

#include "cli/terminal/printed_text.h"
#include "launcher/view/run_overview.h"

namespace dlrun {

/// Returns the lines about the run: its state, its nodes, its progress, its result and its use of
/// resources. Each line has at most `columns` columns. The last line is always empty: it separates
/// the head from the table.
[[nodiscard]] std::vector<Text> head_lines(const RunOverview& overview, std::size_t columns);

}  // namespace dlrun
