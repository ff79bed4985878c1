#pragma once
// sweep.stop_early: ends a point of a sweep if the results of this point are worse than those
// of other points.
//
// The lead of each point keeps the best values of its point in the file `reports.jsonl` of the
// point's run directory, and reads these files of the other points. No process watches the whole
// sweep.

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
  std::string metric{};  ///< the name of a number in the program's reports; empty: no rule
  bool is_smaller_better = true;
  std::int64_t after = 1;  ///< no point ends before this epoch or step, see MetricReport::at
};

/// Parses a rule such as "min:loss" or "max:accuracy". Fails with kUsage.
[[nodiscard]] Result<StopRule> parse_stop_rule(std::string_view text);

/// The metric's value in one report of a point's program.
struct MetricReport {
  std::int64_t at = 0;  ///< the epoch, or the step if the program reports no epoch
  double value = 0;
  bool is_at_step = false;  ///< `at` is a step, not an epoch
};
/// The best value that a point has reported up to an epoch or step.
struct BestSoFar {
  std::int64_t at = 0;  ///< the epoch, or the step if the program reports no epoch
  double value = 0;
  bool is_at_step = false;  ///< `at` is a step, not an epoch; for messages, and not in the file
  /// The best value among this entry and the skipped reports after it; not in the file. nullopt: no
  /// report was skipped.
  std::optional<double> best_with_skipped{};
};
/// The best values of a point, in ascending order of `at`.
using Trajectory = std::vector<BestSoFar>;

/// Returns the epoch of a report, or its step if the report has no epoch, together with the
/// metric's value. Returns nullopt if the report has neither an epoch nor a step, or has no value
/// of the metric. Also returns nullopt if the epoch or step is negative, or if the value is not
/// finite.
[[nodiscard]] std::optional<MetricReport> read_report(const StopRule& rule,
                                                      const nlohmann::ordered_json& body);

/// Adds an entry for a report to a trajectory. Keeps the trajectory short: if its newest entry is
/// at epoch (or step) N, skips reports from before N + max(1, N / 100). The best value of the
/// skipped reports counts in the next entry. Returns true if an entry was added.
bool add_report(const StopRule& rule, Trajectory& trajectory, const MetricReport& report);

/// The least number of other points with which a point is compared.
inline constexpr std::size_t kLeastOthers = 3;

/// Applies the median rule (Golovin et al. 2017, Google Vizier, 3.3.2), but with the best value of
/// each other point instead of its mean. Returns a sentence for the user if the point's best value
/// is worse than the median of the best values that the other points had at the same epoch or step.
/// Ignores points that have not reached this epoch or step. Returns nullopt if the point continues.
/// The point always continues before rule.after, and if fewer than kLeastOthers other points have
/// reached this epoch or step.
[[nodiscard]] std::optional<std::string> why_stop(const StopRule& rule, const Trajectory& own,
                                                  const std::vector<Trajectory>& others);

/// Returns the trajectory in the text of a `reports.jsonl`. Skips damaged lines.
[[nodiscard]] Trajectory read_trajectory(std::string_view text);

/// Writes the point's reports and compares them with the reports of the other points. A separate
/// thread does this work, because a network file system may hang.
class StopEarly {
 public:
  /// Starts the thread. run: the point's run directory.
  StopEarly(StopRule rule, std::filesystem::path run);
  /// Waits until the last reports are written, at most one second.
  ~StopEarly();
  StopEarly(const StopEarly&) = delete;
  StopEarly& operator=(const StopEarly&) = delete;

  /// Handles a report of the program.
  void on_progress(const nlohmann::ordered_json& body);
  /// Returns the sentence for the user if the point must end, and nullopt otherwise. Returns each
  /// sentence once.
  [[nodiscard]] std::optional<std::string> take_verdict();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace dlrun::agent
