#pragma once
// The ranks of a run as they were a few seconds ago: ranks.json (runtime/ENVIRONMENT.md), and who
// of them stands out.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace dlrun {

/// Why a rank stands out.
enum class RankMark {
  kNone,
  kSilent,  ///< its agent has told nothing for a while
  kSlow,    ///< the others wait for it
  kIdle,    ///< it uses far less of its processors or GPUs than the others
  kLarge,   ///< it holds far more memory than the others
};
/// "silent", "slow", "idle", "large", "".
[[nodiscard]] std::string_view word(RankMark mark);

struct RankSample {
  std::int64_t rank = 0;
  std::string node;
  std::optional<double> cpu, gpu_percent, work_ms;
  std::optional<double> rss_bytes, gpu_used_bytes, gpu_total_bytes;
  std::optional<std::int64_t> step;
  std::int64_t lag = 0, age_s = 0;
  bool is_slow = false;  ///< as lead sees it
  RankMark mark = RankMark::kNone;
};

struct RankSnapshot {
  std::string time;  ///< UTC
  std::int64_t attempt = 0, ranks = 0;
  std::vector<RankSample> rows;  ///< those that have told something, marked, in the order of ranks

  /// How many have this mark.
  [[nodiscard]] std::size_t count(RankMark mark) const;
  /// All rows, those that stand out first, the worst of them first.
  [[nodiscard]] std::vector<const RankSample*> outliers_first() const;
};

/// Nothing where text is no ranks.json; rows of it that are none are passed over.
[[nodiscard]] std::optional<RankSnapshot> parse_ranks(std::string_view text);
/// Nothing where there is no such file yet.
[[nodiscard]] Result<std::optional<RankSnapshot>> read_ranks(const std::filesystem::path& run);

}  // namespace dlrun
