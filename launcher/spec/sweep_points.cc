#include "launcher/spec/sweep_points.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <set>

#include <fmt/format.h>

namespace dlrun {
namespace {

/// Draws random numbers that are the same with every standard library. The standard defines the
/// sequence of std::mt19937_64, but not the algorithms of the distributions; these are implemented
/// here.
class RandomNumbers {
 public:
  explicit RandomNumbers(std::uint64_t seed) : engine_(seed) {}

  /// Returns a number from 0 to count - 1, each with the same probability. Rejects draws from the
  /// end of the engine's range, which would otherwise favour small numbers.
  [[nodiscard]] std::uint64_t index(std::uint64_t count) {
    const std::uint64_t uneven = (UINT64_MAX % count + 1) % count;
    for (;;) {
      const std::uint64_t drawn = engine_();
      if (drawn <= UINT64_MAX - uneven) return drawn % count;
    }
  }

  /// Returns a number that is at least 0 and less than 1.
  [[nodiscard]] double fraction() { return static_cast<double>(engine_() >> 11U) * 0x1p-53; }

 private:
  std::mt19937_64 engine_;
};

/// Draws a whole number, or a number with six significant digits, so that people can read and type
/// it. Keeps all digits if the rounded number would be outside the range.
[[nodiscard]] std::string draw_number(RandomNumbers& numbers, const SweptRange& range) {
  if (range.is_whole && !range.is_log) {
    const auto min = static_cast<std::int64_t>(range.min),
               max = static_cast<std::int64_t>(range.max);
    return std::to_string(
        min + static_cast<std::int64_t>(numbers.index(static_cast<std::uint64_t>(max - min) + 1)));
  }
  const double fraction = numbers.fraction();
  const double number =
      range.is_log
          ? std::exp(std::log(range.min) + fraction * (std::log(range.max) - std::log(range.min)))
          : range.min + fraction * (range.max - range.min);
  const double inside = std::clamp(number, range.min, range.max);
  if (range.is_whole) return fmt::format("{:.0f}", inside);
  std::string text = fmt::format("{:.6g}", inside);
  const double rounded = std::stod(text);  // always a number: fmt wrote it
  if (rounded < range.min || rounded > range.max) text = fmt::format("{}", inside);
  return text;
}

/// Returns the combination with this index.
[[nodiscard]] SweepPoint combination(const SweepSpec& sweep, std::uint64_t index) {
  SweepPoint point(sweep.parameters.size());
  for (std::size_t i = sweep.parameters.size(); i-- > 0;) {
    const auto& values = sweep.parameters[i].values;
    point[i] = values[index % values.size()];
    index /= values.size();
  }
  return point;
}

[[nodiscard]] std::vector<SweepPoint> random_combinations(const SweepSpec& sweep,
                                                          std::uint64_t count,
                                                          RandomNumbers& numbers) {
  // Floyd's algorithm: draws `count` different indexes out of `all` without a list of all indexes;
  // each set has the same probability.
  const std::uint64_t all = count_possible_points(sweep);
  std::set<std::uint64_t> taken;
  std::vector<SweepPoint> points;
  for (std::uint64_t largest = all - count; largest < all; ++largest) {
    std::uint64_t index = numbers.index(largest + 1);
    if (!taken.insert(index).second) taken.insert(index = largest);
    points.push_back(combination(sweep, index));
  }
  return points;
}

[[nodiscard]] std::vector<SweepPoint> random_points(const SweepSpec& sweep, std::uint64_t count,
                                                    RandomNumbers& numbers) {
  std::set<std::string> taken;
  std::vector<SweepPoint> points;
  const std::uint64_t max_tries = 20 * count + 100;
  for (std::uint64_t i = 0; i < max_tries && points.size() < count; ++i) {
    SweepPoint point;
    for (const SweptKey& key : sweep.parameters) {
      if (key.range) {
        point.push_back({key.key, draw_number(numbers, *key.range), key.where});
      } else {
        point.push_back(key.values[numbers.index(key.values.size())]);
      }
    }
    if (taken.insert(describe(point)).second) points.push_back(std::move(point));
  }
  return points;
}

/// Returns a point with the first value of each list and the smallest value of each range.
[[nodiscard]] SweepPoint sample_point(const SweepSpec& sweep) {
  SweepPoint point;
  for (const SweptKey& key : sweep.parameters) {
    point.push_back(key.range ? SweptValue{key.key, fmt::format("{}", key.range->min), key.where}
                              : key.values.front());
  }
  return point;
}

}  // namespace

std::uint64_t count_possible_points(const SweepSpec& sweep) {
  if (!sweep.points.empty()) return sweep.points.size();
  // One sample point, with which dlrun checks the spec: the program of a search chooses the points.
  if (sweep.is_search() && !sweep.parameters.empty()) return 1;
  std::uint64_t all = sweep.parameters.empty() ? 0 : 1;
  for (const SweptKey& key : sweep.parameters) {
    const std::uint64_t value_count = key.range ? UINT64_MAX : key.values.size();
    if (value_count != 0 && all > UINT64_MAX / value_count) return UINT64_MAX;
    all *= value_count;
  }
  return all;
}

std::uint64_t count_points(const SweepSpec& sweep) {
  return sweep.random && sweep.points.empty() ? static_cast<std::uint64_t>(*sweep.random)
                                              : count_possible_points(sweep);
}

std::vector<SweepPoint> sweep_points(const SweepSpec& sweep) {
  if (!sweep.points.empty()) return sweep.points;
  if (sweep.is_search()) return {sample_point(sweep)};
  if (sweep.random) {
    RandomNumbers numbers(static_cast<std::uint64_t>(sweep.seed.value_or(1)));
    const auto count = static_cast<std::uint64_t>(*sweep.random);
    const bool has_range = std::any_of(sweep.parameters.begin(), sweep.parameters.end(),
                                       [](const SweptKey& key) { return key.range.has_value(); });
    return has_range ? random_points(sweep, count, numbers)
                     : random_combinations(sweep, count, numbers);
  }
  std::vector<SweepPoint> points;
  const std::uint64_t all = count_possible_points(sweep);
  points.reserve(all);
  for (std::uint64_t i = 0; i < all; ++i) points.push_back(combination(sweep, i));
  return points;
}

bool sweeps_over(const SweepSpec& sweep, std::string_view key) {
  const auto has_key = [&](const auto& swept) { return swept.key == key; };
  return std::any_of(sweep.parameters.begin(), sweep.parameters.end(), has_key) ||
         std::any_of(sweep.points.begin(), sweep.points.end(), [&](const SweepPoint& point) {
           return std::any_of(point.begin(), point.end(), has_key);
         });
}

bool is_smaller_better(std::string_view result_name) {
  constexpr std::array<std::string_view, 4> kWords{"loss", "error", "perplexity", "seconds"};
  return std::any_of(kWords.begin(), kWords.end(), [&](std::string_view word) {
    return result_name.find(word) != std::string_view::npos;
  });
}

std::string describe(const SweepPoint& point) {
  std::string text;
  for (const SweptValue& value : point)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", value.key, value.text);
  return text;
}

}  // namespace dlrun
