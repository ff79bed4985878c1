#pragma once
// Shows the measurements of `dlrun bench collectives`: a table and bars. Pure functions.

#include <vector>

#include "common/shown_data.h"
#include "launcher/bench/collectives_bench.h"

namespace dlrun {

/// Returns the heading, then one row for each number of ranks and size, with three columns for each
/// backend: microseconds, algbw, busbw. A backend without this measurement has "-".
[[nodiscard]] TableRows collectives_table(const CollectiveMeasurements& measurements);

/// Returns two charts: the time at the smallest size, and the bus bandwidth at the largest. Each
/// chart has one bar for each number of ranks and each backend that was measured with it. Returns
/// no charts if there are no measurements.
[[nodiscard]] std::vector<BarChart> collectives_bars(const CollectiveMeasurements& measurements);

}  // namespace dlrun
