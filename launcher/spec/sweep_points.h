#pragma once
// Enumerates the experiments of a sweep. A spec has the same points in the same order on every
// machine.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/spec/spec.h"

namespace dlrun {

/// The largest number of points of a sweep: few enough to review, and to plan in seconds.
inline constexpr std::uint64_t kMostSweepPoints = 10'000;

/// Returns the number of points if the sweep lists its points, and 1 for a search, whose program
/// chooses the points later. Otherwise returns the number of combinations of the parameters;
/// UINT64_MAX if the number is larger, or if a parameter has a range.
[[nodiscard]] std::uint64_t count_possible_points(const SweepSpec& sweep);

/// Returns sweep.random if the sweep draws its points, else count_possible_points(). sweep_points()
/// returns this number of points, or fewer if it draws from ranges that are too narrow.
[[nodiscard]] std::uint64_t count_points(const SweepSpec& sweep);

/// Returns the points of a sweep:
/// - sweep.points, if the sweep has this key;
/// - for a search (sweep.ask), one sample point, with which dlrun checks and shows the spec;
/// - with sweep.random, this number of different points, or fewer if the ranges are too narrow;
/// - otherwise all combinations; the last key changes fastest.
/// Requires a checked sweep: count_points() is at most kMostSweepPoints, and random at most
/// count_possible_points().
[[nodiscard]] std::vector<SweepPoint> sweep_points(const SweepSpec& sweep);

/// Returns true if some point sets this key.
[[nodiscard]] bool sweeps_over(const SweepSpec& sweep, std::string_view key);

/// Returns true if a smaller value of this result is better: for names with "loss", "error",
/// "perplexity" or "seconds".
[[nodiscard]] bool is_smaller_better(std::string_view result_name);

/// Returns the point as text: "train.lr=0.1 train.batch=32".
[[nodiscard]] std::string describe(const SweepPoint& point);

}  // namespace dlrun
