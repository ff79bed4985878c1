#pragma once
// A sweep's run directory, which contains its arrays; the arrays contain the points.
// runtime/ENVIRONMENT.md documents the layout:
//   SWEEP/sweep.json    the points: for each the values that it sets, the number of its job array,
//                       and its index in that array
//   SWEEP/array-K/      the input of one sbatch call: job.sh, submission.json
//   SWEEP/array-K/T/    the run of the point with index T in that array: job.sh, resolved.yaml, and
//                       the other files of a run. With `pack`, Slurm's task has another number than
//                       T; see SweepRecord::task_of().
// A point's submission.json has only the number of its task. The job id, which is known only after
// the submission, is in the array's submission.json. So the files of 10,000 points are not written
// again after the submission.

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "launcher/runs/index.h"
#include "launcher/spec/sweep_points.h"

namespace dlrun {

/// The contents of sweep.json.
struct SweepRecord {
  struct Point {
    std::size_t array = 0;           ///< the number of its array, from 0
    std::size_t point_in_array = 0;  ///< the number of the point in its array; see task_of()
    /// The values of `keys`, in that order; nullopt for a key that the point does not set.
    std::vector<std::optional<std::string>> values;
  };
  std::vector<std::string> keys;  ///< the swept keys and program parameters
  std::vector<Point> points;
  std::size_t array_count = 0;
  /// The largest number of points that run at the same time; nullopt: no limit.
  std::optional<std::int64_t> max_parallel;
  std::size_t pack = 1;  ///< number of points that one task of an array runs

  /// Returns Slurm's number of the task that runs the point.
  [[nodiscard]] std::size_t task_of(const Point& point) const {
    return point.point_in_array / pack;
  }
};

/// Returns true if the run is a sweep.
[[nodiscard]] bool is_sweep(const std::filesystem::path& run);
/// Reads sweep.json. Fails with kNotFound if there is none, and with kInvalid if it is damaged.
[[nodiscard]] Result<SweepRecord> read_sweep(const std::filesystem::path& run);
/// Returns the text of sweep.json.
[[nodiscard]] std::string sweep_json(const SweepRecord& sweep);

/// Returns SWEEP/array-K.
[[nodiscard]] std::filesystem::path array_path(const std::filesystem::path& sweep,
                                               std::size_t array);
/// Returns SWEEP/array-K/T.
[[nodiscard]] std::filesystem::path point_path(const std::filesystem::path& sweep,
                                               const SweepRecord::Point& point);

/// The results by which points are compared if the user chooses none: dlrun uses the first of these
/// results that any point has.
inline constexpr std::array<std::string_view, 4> kComparedResults{"test_accuracy", "accuracy",
                                                                  "test_loss", "loss"};

/// Returns the point's values as text: "train.lr=0.1 train.batch=32".
[[nodiscard]] std::string describe(const SweepRecord& sweep, const SweepRecord::Point& point);

/// Returns the sweep that a point's directory belongs to; nullopt if the directory is not a
/// point's.
[[nodiscard]] std::optional<std::filesystem::path> sweep_of_point(
    const std::filesystem::path& point);

/// Returns an index entry with the id "SWEEP-ID/7" and the path of the point's current run. Fails
/// with kNotFound if there is no such point, and as read_sweep() does.
[[nodiscard]] Result<IndexEntry> point_entry(const IndexEntry& sweep, std::size_t number);

/// Returns the point's own directory and the runs that it was resubmitted as, in order. Never
/// empty.
[[nodiscard]] std::vector<std::filesystem::path> runs_of_point(const std::filesystem::path& point);
/// Returns the current run of a point: the last of runs_of_point().
[[nodiscard]] std::filesystem::path current_run_of(const std::filesystem::path& point);

/// Returns the runs to which the argument RUN of a command refers: for a sweep the current run of
/// each point, otherwise the run itself. Fails as read_sweep() does.
[[nodiscard]] Result<std::vector<IndexEntry>> single_runs_of(const IndexEntry& run);

/// Records that the point, or its current run, was resubmitted as another run.
[[nodiscard]] Result<> write_successor(const std::filesystem::path& point,
                                       const std::filesystem::path& run);

}  // namespace dlrun
