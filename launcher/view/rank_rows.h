#pragma once
// The table of ranks of `dlrun top`. Pure functions.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/runs/ranks.h"

namespace dlrun {

struct RankRow {
  std::vector<std::string> cells;  ///< one for each title
  RankMark mark = RankMark::kNone;
};

/// The columns GPU, GPU MEMORY, STEP and WORK/STEP are left out if no rank has a value. The second
/// column and the last one hold text, the others numbers.
struct RankRows {
  std::vector<std::string> titles;
  std::vector<RankRow> rows;     ///< the ranks that stand out come first, the worst one on top
  std::size_t hidden_count = 0;  ///< number of ranks with a sample and without a row
  std::size_t hidden_marked_count = 0;  ///< number of hidden ranks that stand out
};

/// Returns at most `most` rows. newest_step: the step to show for rank 0; nullopt: the step in its
/// sample.
[[nodiscard]] RankRows rank_rows(const RankSnapshot& ranks,
                                 const std::optional<std::int64_t>& newest_step, std::size_t most);

}  // namespace dlrun
