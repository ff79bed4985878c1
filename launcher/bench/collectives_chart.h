#pragma once
// Shows the measurements of `dlrun bench collectives`: a table and bars. Pure functions.

#include <vector>

#include "common/shown_data.h"
#include "launcher/bench/collectives_bench.h"

namespace dlrun {

/// Returns one row for each number of ranks and size, with three columns for each backend:
/// microseconds, algbw, busbw.
[[nodiscard]] TableRows collectives_table(const CollectiveMeasurements& measurements);

/// Returns two charts: the time at the smallest size, and the bus bandwidth at the largest. Each
/// has one bar for each number of ranks and backend. Returns no charts without measurements.
[[nodiscard]] std::vector<BarChart> collectives_bars(const CollectiveMeasurements& measurements);

}  // namespace dlrun
