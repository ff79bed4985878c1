#pragma once
// A sweep's run directory: the parent of its arrays, and through them of its points.
// runtime/ENVIRONMENT.md has the layout:
//   <sweep>/sweep.json       which points there are, what they set, which array runs them as which
//   task <sweep>/array-K/         what one sbatch gets: job.sh, submission.json <sweep>/array-K/T/
//   the run of one point: its own job.sh and resolved.yaml, and what a run has
// A point's submission.json says only that it is task T of the array above it, so that 10,000
// points are written once and not again when they have been submitted.

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

namespace dlrun {

struct SweepRecord {
  struct Point {
    std::size_t array = 0, task = 0;
    std::vector<std::optional<std::string>>
        values;  ///< of keys; nothing where the point does not set one
  };
  std::vector<std::string> keys;
  std::vector<Point> points;
  std::size_t arrays = 0;
  std::optional<std::int64_t> max_parallel;
};

[[nodiscard]] bool is_sweep(const std::filesystem::path& run);
/// kNotFound for a run that is no sweep, kInvalid where sweep.json is damaged.
[[nodiscard]] Result<SweepRecord> read_sweep(const std::filesystem::path& run);
[[nodiscard]] std::string sweep_json(const SweepRecord& sweep);

[[nodiscard]] std::filesystem::path array_path(const std::filesystem::path& sweep,
                                               std::size_t array);
[[nodiscard]] std::filesystem::path point_path(const std::filesystem::path& sweep,
                                               const SweepRecord::Point& point);

/// What points are judged by where nobody says: the first of these that one of them has as a
/// result.
inline constexpr std::array<std::string_view, 4> kJudgedBy{"test_accuracy", "accuracy", "test_loss",
                                                           "loss"};
/// Less is better of what names a loss, an error or a time; of anything else more is.
[[nodiscard]] bool less_is_better(std::string_view result);

/// "train.lr=0.1 train.batch=32"
[[nodiscard]] std::string describe(const SweepRecord& sweep, const SweepRecord::Point& point);

/// The sweep that a point's directory belongs to.
[[nodiscard]] std::optional<std::filesystem::path> sweep_of_point(
    const std::filesystem::path& point);

/// A point as a run of its own, "SWEEP-ID/7": the run that counts for it. kNotFound where there is
/// no such point.
[[nodiscard]] Result<IndexEntry> point_entry(const IndexEntry& sweep, std::size_t number);

/// A point's own directory, and the runs that it was submitted again as, in their order. Never
/// empty.
[[nodiscard]] std::vector<std::filesystem::path> runs_of_point(const std::filesystem::path& point);
/// The run that counts for a point: the last of these.
[[nodiscard]] std::filesystem::path current_run_of(const std::filesystem::path& point);

/// Slurm soon forgets what was cancelled before it started, an array's task at once. The mark is of
/// a run, a point among them, or of an array.
[[nodiscard]] Result<> mark_cancelled(const std::filesystem::path& run_or_array);
[[nodiscard]] bool is_marked_cancelled(const std::filesystem::path& run_or_array);
/// It is submitted after all.
void unmark_cancelled(const std::filesystem::path& run_or_array);

/// A point, or a run that counts for one, goes on as another run.
[[nodiscard]] Result<> write_successor(const std::filesystem::path& point,
                                       const std::filesystem::path& run);

}  // namespace dlrun
