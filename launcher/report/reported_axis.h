#pragma once
// Chooses the x axis of the curves that programs report, so that runs with different batches can be
// compared. Pure functions.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/report/run_report.h"

namespace dlrun {

/// The x axis of the reported values of one run or of several runs.
class ReportedAxis {
 public:
  /// Applies the first of these rules whose condition holds (condition: axis).
  /// - At least one run reports no steps: epochs if all runs report epochs, else the time since the
  ///   start.
  /// - The steps per epoch differ between the runs: epochs.
  /// - The global batches differ between the runs: samples.
  /// - Otherwise, also for a single run: steps.
  /// A run that has reported nothing counts as a run that reports steps and epochs. The steps per
  /// epoch differ if they are known for all runs and the largest number is more than 5% above the
  /// smallest. This also holds for the global batches.
  explicit ReportedAxis(const std::vector<const RunReport*>& reports);

  [[nodiscard]] bool is_time() const { return kind_ == Kind::kTime; }
  /// Returns "steps", "epochs" or "samples"; "" for time.
  [[nodiscard]] std::string unit() const;

  /// Returns x of a point of one report. seconds: the time since the run's start.
  /// Returns nullopt if the point lacks the step or the epoch.
  [[nodiscard]] std::optional<double> x_of(std::size_t report_index, double seconds,
                                           const std::optional<std::int64_t>& step,
                                           const std::optional<std::int64_t>& epoch) const;

 private:
  enum class Kind { kTime, kSteps, kEpochsOfSteps, kReportedEpochs, kSamples };
  Kind kind_ = Kind::kSteps;
  std::vector<double> per_step_;  ///< one for each report: epochs or samples of a step
};

/// Returns the number of steps in an epoch: from the totals that the program reported, else from
/// the steps at which the reported epochs changed. Returns nullopt if neither is known.
[[nodiscard]] std::optional<double> steps_per_epoch(const RunReport& report);

/// Returns the number of samples of one step on all ranks of the bundled trainer. Returns nullopt
/// for other programs, and if the run's record does not have the number of ranks.
[[nodiscard]] std::optional<double> samples_per_step(const RunReport& report);

}  // namespace dlrun
