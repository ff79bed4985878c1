#pragma once
// Formats the screen of `dlrun top` as lines of text. Pure functions: no clock, no files,
// no terminal.

#include <cstddef>
#include <string>
#include <vector>

#include "cli/terminal/printed_text.h"
#include "launcher/view/run_overview.h"

namespace dlrun {

struct TopSize {
  std::size_t columns = 80;
  std::size_t rows = 24;  ///< 0: no limit
  /// The largest number of ranks, or of points of a sweep, to show. 0: as many as fit, or 20 if
  /// `rows` is 0.
  std::size_t max_ranks = 0;
};

/// Returns the lines of the screen, each of at most size.columns columns. The number of lines is at
/// most size.rows, unless size.rows is 0.
[[nodiscard]] std::vector<Text> top_lines(const RunOverview& overview, const TopSize& size);

}  // namespace dlrun
