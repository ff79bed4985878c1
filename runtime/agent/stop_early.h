#pragma once
// sweep.stop_early: ends a point of a sweep that does worse than the other points.
//
// The lead of each point writes what its program reports into `reports.jsonl` of the point's run
// directory, and reads that file of the other points. No process watches the whole sweep.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/result.h"

namespace dlrun::agent {

/// The options --stop-early and --stop-after of lead.
struct StopRule {
  std::string metric{};  ///< a number of the program's reports; empty: no point is stopped
  bool less_is_better = true;
  std::int64_t after = 1;  ///< a point runs at least to this epoch (or step, if it reports none)
};

/// Parses "min:loss" or "max:accuracy" into a rule. Fails with kUsage.
[[nodiscard]] Result<StopRule> parse_stop_rule(std::string_view text);

/// The best value that a point has reported up to an epoch or step.
struct BestSoFar {
  std::int64_t at = 0;
  double value = 0;
};
/// All that a point has reported, `at` rising.
using Trajectory = std::vector<BestSoFar>;

/// Returns the epoch of a report, or its step if it has no epoch, together with the metric's value;
/// nullopt if one of them is missing.
[[nodiscard]] std::optional<BestSoFar> read_report(const StopRule& rule,
                                                   const nlohmann::ordered_json& body);

/// Adds a report to a trajectory. Keeps an entry for each of the first hundred epochs or steps, and
/// later one for each percent, so that a trajectory stays short. Returns true if it added an entry.
bool add_report(const StopRule& rule, Trajectory& trajectory, BestSoFar report);

/// The number of other points that a point is compared with at least.
inline constexpr std::size_t kLeastOthers = 3;

/// The median rule (Golovin et al. 2017, Google Vizier, 3.3.2; here with the best value of the
/// other points instead of their mean): returns a sentence if the point's best value is worse than
/// the median of the best values that the other points had at the same epoch or step. Returns
/// nullopt if the point goes on. Points that have not come so far do not count.
[[nodiscard]] std::optional<std::string> why_stop(const StopRule& rule, const Trajectory& own,
                                                  const std::vector<Trajectory>& others);

/// Returns the trajectory in the text of a `reports.jsonl`. Leaves out lines that are not whole.
[[nodiscard]] Trajectory read_trajectory(std::string_view text);

/// Writes the point's reports and compares them with those of the other points. Uses its own
/// thread, because a network file system may hang.
class StopEarly {
 public:
  StopEarly(StopRule rule, std::filesystem::path run);
  ~StopEarly();
  StopEarly(const StopEarly&) = delete;
  StopEarly& operator=(const StopEarly&) = delete;

  /// Takes a report of the program.
  void on_progress(const nlohmann::ordered_json& body);
  /// Returns the sentence for the user once the point is to end.
  [[nodiscard]] std::optional<std::string> take_verdict();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace dlrun::agent
