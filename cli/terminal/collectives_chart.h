#pragma once
// Shows the measurements of `dlrun bench collectives` to people: a table, bars on a terminal, an
// SVG. Pure functions.

#include <cstdint>
#include <string>
#include <vector>

#include "cli/terminal/text.h"

namespace dlrun {

/// One measured size of one backend at one number of ranks. Bandwidths are in 1e9 bytes per second,
/// as nccl-tests defines them.
struct CollectiveFigure {
  std::string backend;
  int workers = 0;
  std::uint64_t bytes = 0;
  double microseconds = 0;
  double algorithm_bandwidth = 0;
  double bus_bandwidth = 0;
};

/// Returns "8 B", "64 KiB" or "16 MiB"; "24 B" if the size is no power of two.
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);

/// Returns one row for each number of workers and size, with three columns for each backend:
/// microseconds, algbw, busbw.
[[nodiscard]] Text collectives_table(const std::vector<CollectiveFigure>& figures);

/// Returns bars for each number of workers and backend: the time at the smallest size and the bus
/// bandwidth at the largest.
[[nodiscard]] Text collectives_bars(const std::vector<CollectiveFigure>& figures);

/// Returns a self-contained SVG: for each number of workers the time and the bus bandwidth over the
/// size, one line for each backend, logarithmic axes. Escapes `title`.
[[nodiscard]] std::string collectives_svg(const std::vector<CollectiveFigure>& figures,
                                          const std::string& title);

}  // namespace dlrun
