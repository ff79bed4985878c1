#pragma once
// Describes a RunOverview for people: the run's ranks, nodes and duration, its progress, its use of
// resources, and the points of a sweep that a view shows. Pure functions.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/shown_data.h"
#include "launcher/view/run_overview.h"

namespace dlrun {

/// Returns "4 ranks on n[1-4] for 3 min"; "" if nothing is known yet.
[[nodiscard]] std::string ranks_and_time_text(const RunOverview& overview);

/// Returns the newest known step of rank 0 in the latest attempt: the larger one of the steps in
/// the progress report and in the rank's sample, which are recorded at different times. The head
/// and the table of `dlrun top` both show it. Returns nullopt if the attempt has not reported a
/// step.
[[nodiscard]] std::optional<std::int64_t> newest_step(const RunOverview& overview);

/// Returns the progress to show, at the newest known step. If the run has completed, the step and
/// the epoch are the totals, because the last report may be older. Returns nullopt without a
/// report.
[[nodiscard]] std::optional<Progress> shown_progress(const RunOverview& overview);

/// Returns the fraction of the run that is done, from 0 to 1; nullopt if unknown.
[[nodiscard]] std::optional<double> fraction_done(const Progress& progress);

/// Returns "  step 350/938  epoch 2/4".
[[nodiscard]] std::string steps_text(const Progress& progress);

/// Returns the estimated time until the run has done all its steps: "3 min 12 s"; "" if the run has
/// ended, or if the time is unknown.
[[nodiscard]] std::string time_left_text(const RunOverview& overview, const Progress& progress);

/// Returns the values of this field in the reports of the latest attempt that has reported
/// progress.
[[nodiscard]] std::vector<double> reported_values(const RunHistory& history,
                                                  std::optional<double> ProgressPoint::*field);

/// Returns the ranks' use of processors, memory and GPUs in the latest attempt.
[[nodiscard]] LabelledLines resource_lines(const RunOverview& overview);

/// The number of a sweep's points that have ended, as a fraction and as text.
struct EndedPoints {
  double fraction = 0;  ///< of all points, from 0 to 1
  std::string text;     ///< "3 of 8 points are over"
};
/// Counts the points that have completed, failed or timed out, or were refused or cancelled.
[[nodiscard]] EndedPoints count_ended_points(const SweepCounts& counts);

/// Returns at most `most` points to show, in their order. If there are more points, chooses running
/// points first, then failed, pending, others, completed.
[[nodiscard]] std::vector<const PointOverview*> shown_points(
    const std::vector<PointOverview>& points, std::size_t most);

/// Returns a local time of day: "14:03:07". t: seconds since 1970.
[[nodiscard]] std::string clock_text(double t);

}  // namespace dlrun
