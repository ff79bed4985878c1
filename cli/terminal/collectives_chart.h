#pragma once
// What `dlrun bench collectives` measured, for people: a table, bars on a terminal, a drawing.
// Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "cli/terminal/text.h"

namespace dlrun {

/// One size of one backend at one number of ranks. Bandwidths in 1e9 bytes a second, as nccl-tests
/// defines them.
struct CollectiveFigure {
  std::string backend;
  int workers = 0;
  std::uint64_t bytes = 0;
  double microseconds = 0;
  double algorithm_bandwidth = 0;
  double bus_bandwidth = 0;
};

/// "8 B", "64 KiB", "16 MiB"; "24 B" where the size is no power of two.
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);

/// One row for each number of workers and size, three columns for each backend: microseconds,
/// algbw, busbw.
[[nodiscard]] Text collectives_table(const std::vector<CollectiveFigure>& figures);

/// Bars: the time at the smallest size, and the bus bandwidth at the largest, for each number of
/// workers and backend.
[[nodiscard]] Text collectives_bars(const std::vector<CollectiveFigure>& figures);

/// A self-contained SVG: for each number of workers the time and the bus bandwidth over the size, a
/// line for each backend, both axes logarithmic. title is escaped.
[[nodiscard]] std::string collectives_svg(const std::vector<CollectiveFigure>& figures,
                                          const std::string& title);

}  // namespace dlrun
