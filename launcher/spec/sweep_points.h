#pragma once
// Which experiments a sweep is made of. Pure: the same spec gives the same points, in the same
// order, on every machine.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/spec/spec.h"

namespace dlrun {

/// Enough for a person to look at, and few enough to plan in seconds.
inline constexpr std::uint64_t kMostSweepPoints = 10'000;

/// The combinations of parameters, UINT64_MAX where they are more or a range makes them endless;
/// the number of points where those are given.
[[nodiscard]] std::uint64_t grid_size(const SweepSpec& sweep);

/// How many points the sweep has.
[[nodiscard]] std::uint64_t count_points(const SweepSpec& sweep);

/// The points: as given; else every combination, the last key changing fastest; else sweep.random
/// of them, no two alike. Expects a sweep that was checked: count_points() at most
/// kMostSweepPoints, random at most grid_size(). A range too narrow for that many different points
/// gives fewer.
[[nodiscard]] std::vector<SweepPoint> sweep_points(const SweepSpec& sweep);

/// Whether some point sets this key.
[[nodiscard]] bool sweeps_over(const SweepSpec& sweep, std::string_view key);

/// "train.lr=0.1 train.batch=32"
[[nodiscard]] std::string describe(const SweepPoint& point);

}  // namespace dlrun
