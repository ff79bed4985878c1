#pragma once
// The state of a run's ranks a few seconds ago, from ranks.json (see runtime/ENVIRONMENT.md). Marks
// the ranks that stand out.

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
  kSilent,      ///< its agent has not reported for a while
  kSlow,        ///< makes the others wait
  kIdle,        ///< uses far less of its processors or GPUs than the others
  kMuchMemory,  ///< uses far more memory than the others
};
/// Returns "silent", "slow", "idle", "large" or "".
[[nodiscard]] std::string_view word(RankMark mark);

/// One rank. cpu: busy cores. gpu_percent: 0 to 100. work_ms: milliseconds of the rank's own work
/// on a step. lag: steps behind the step that half of the ranks had reached 6 to 12 s earlier.
/// age_s: seconds since its agent's last heartbeat. Absent values are unknown.
struct RankSample {
  std::int64_t rank = 0;
  std::string node;
  std::optional<double> cpu, gpu_percent, work_ms;
  std::optional<double> rss_bytes, gpu_used_bytes, gpu_total_bytes;
  std::optional<std::int64_t> step;
  std::int64_t lag = 0, age_s = 0;
  bool is_slow = false;  ///< according to lead
  RankMark mark = RankMark::kNone;
};

struct RankSnapshot {
  std::string time;  ///< UTC
  std::int64_t attempt = 0;
  std::int64_t ranks = 0;        ///< number of ranks of the attempt
  std::vector<RankSample> rows;  ///< the ranks that have reported, with marks, sorted by rank

  /// Returns the number of ranks with this mark.
  [[nodiscard]] std::size_t count(RankMark mark) const;
  /// Returns all rows; those that stand out come first, the worst first.
  [[nodiscard]] std::vector<const RankSample*> outliers_first() const;
};

/// Parses ranks.json. Returns nullopt if text is not a ranks.json; skips malformed rows.
[[nodiscard]] std::optional<RankSnapshot> parse_ranks(std::string_view text);
/// Reads the run's ranks.json. Returns nullopt if there is no such file yet, or if the file is
/// damaged. Fails if the file cannot be read.
[[nodiscard]] Result<std::optional<RankSnapshot>> read_ranks(const std::filesystem::path& run);

}  // namespace dlrun
