#pragma once
// Shows the measurements of `dlrun bench collectives` on a terminal: a table and bars. Pure
// functions.

#include "cli/terminal/printed_text.h"
#include "launcher/bench/collectives_bench.h"

namespace dlrun {

/// Returns one row for each number of ranks and size, with three columns for each backend:
/// microseconds, algbw, busbw.
[[nodiscard]] Text collectives_table(const CollectiveFigures& figures);

/// Returns bars for each number of ranks and backend: the time at the smallest size and the bus
/// bandwidth at the largest.
[[nodiscard]] Text collectives_bars(const CollectiveFigures& figures);

}  // namespace dlrun
