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

/// Columns without any value are left out. The second column and the last one hold text, the others
/// numbers.
struct RankRows {
  std::vector<std::string> titles;
  std::vector<RankRow> rows;      ///< those that stand out first, the worst first
  std::size_t hidden = 0;         ///< ranks without a row
  std::size_t hidden_marked = 0;  ///< hidden ranks that stand out, too
};

/// Returns at most `most` rows. newest_step: the step of rank 0, if it is known better than from
/// the samples.
[[nodiscard]] RankRows rank_rows(const RankSnapshot& ranks,
                                 const std::optional<std::int64_t>& newest_step, std::size_t most);

}  // namespace dlrun
