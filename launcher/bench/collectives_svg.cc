// Draws two panels for each number of ranks: time and bus bandwidth over the size.

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include <fmt/core.h>

#include "common/units.h"
#include "launcher/bench/collectives_bench.h"
#include "launcher/drawing/svg.h"

namespace dlrun {
namespace {

constexpr double kPanelWidth = 380;
constexpr double kPanelHeight = 230;
constexpr double kLeftMargin = 62;
constexpr double kTopMargin = 58;
constexpr double kGap = 78;
constexpr double kRightMargin = 24;
constexpr std::array kColours{"#0072b2", "#d55e00", "#009e73",
                              "#cc79a7", "#e69f00", "#56b4e9"};  // the colours of Okabe and Ito

using ValueOf = std::function<double(const CollectiveMeasurement&)>;

struct Range {
  double low = 1e300, high = 0;
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  /// Widens the range to whole powers of ten. An empty range becomes 1 to 10.
  void round_to_decades() {
    low = high > 0 ? std::pow(10, std::floor(std::log10(low))) : 1;
    high = high > 0 ? std::pow(10, std::ceil(std::log10(high))) : 10;
  }
};

struct Panel {
  double x = 0, y = 0;  ///< position of the upper left corner
  std::string title;
  int ranks = 0;  ///< number of ranks
  ValueOf value_of;
  Range value_range, size_range;  ///< ranges of the axes
  [[nodiscard]] double x_of(std::uint64_t bytes) const {
    return x + svg::log_position(static_cast<double>(bytes), size_range.low, size_range.high) *
                   kPanelWidth;
  }
  [[nodiscard]] double y_of(double value) const {
    return y + (1 - svg::log_position(value, value_range.low, value_range.high)) * kPanelHeight;
  }
};

std::string title_and_axes_svg(const Panel& panel, const std::vector<std::uint64_t>& sizes) {
  std::string drawn =
      svg::text({{"x", panel.x}, {"y", panel.y - 8}, {"class", "title"}}, panel.title) + "\n";
  for (double tick = panel.value_range.low; tick <= panel.value_range.high * 1.001; tick *= 10)
    drawn +=
        svg::grid_line(panel.x, panel.x + kPanelWidth, panel.y_of(tick), fmt::format("{:g}", tick));
  const std::size_t label_interval = sizes.size() / 6 + 1;
  for (std::size_t i = 0; i < sizes.size(); i += label_interval) {
    drawn += svg::text({{"x", panel.x_of(sizes[i])},
                        {"y", panel.y + kPanelHeight + 16},
                        {"text-anchor", "middle"}},
                       exact_bytes_text(sizes[i])) +
             "\n";
  }
  return drawn;
}

std::string panel_svg(const Panel& panel, const CollectiveMeasurements& measurements) {
  const auto sizes = sizes_of(measurements, panel.ranks);
  std::string drawn = title_and_axes_svg(panel, sizes);
  const auto backends = backends_of(measurements);
  for (std::size_t b = 0; b < backends.size(); ++b) {
    std::string points;
    for (const std::uint64_t bytes : sizes) {
      const CollectiveMeasurement* measurement =
          find_measurement(measurements, backends[b], panel.ranks, bytes);
      if (measurement == nullptr || panel.value_of(*measurement) <= 0) continue;
      points += svg::point(panel.x_of(bytes), panel.y_of(panel.value_of(*measurement)));
    }
    if (points.empty()) continue;
    drawn += svg::element("polyline", {{"points", svg::point_list(points)},
                                       {"stroke", kColours[b % kColours.size()]}}) +
             "\n";
  }
  return drawn;
}

std::string legend(const std::vector<std::string>& backends, double right) {
  std::string drawn;
  for (std::size_t b = 0; b < backends.size(); ++b) {
    const double x = right - 90 * static_cast<double>(backends.size() - b);
    drawn += svg::element("rect", {{"x", svg::whole(x)},
                                   {"y", "10"},
                                   {"width", "14"},
                                   {"height", "14"},
                                   {"fill", kColours[b % kColours.size()]}}) +
             svg::text({{"x", svg::whole(x + 20)}, {"y", "21"}}, backends[b]) + "\n";
  }
  return drawn;
}

}  // namespace

std::string collectives_svg(const CollectiveMeasurements& measurements, const std::string& title) {
  const auto rank_counts = rank_counts_of(measurements);
  const std::array<ValueOf, 2> value_functions{
      [](const CollectiveMeasurement& m) { return m.microseconds; },
      [](const CollectiveMeasurement& m) { return m.bus_bandwidth; }};
  constexpr std::array kTitles{"time, us", "bus bandwidth, GB/s"};
  // All panels of a column have the same axes, so that they can be compared by eye.
  std::array<Range, 2> ranges;
  Range sizes;
  for (const CollectiveMeasurement& measurement : measurements) {
    for (std::size_t v = 0; v < 2; ++v) {
      if (value_functions[v](measurement) > 0) ranges[v].add(value_functions[v](measurement));
    }
    sizes.add(static_cast<double>(measurement.bytes));
  }
  for (Range& range : ranges) range.round_to_decades();
  const double width = kLeftMargin + 2 * kPanelWidth + kGap + kRightMargin;
  const double height =
      kTopMargin + static_cast<double>(rank_counts.size()) * (kPanelHeight + kGap);
  std::string text = svg::beginning(width, height, "", kLeftMargin, title) +
                     legend(backends_of(measurements), width - kRightMargin);
  for (std::size_t row = 0; row < rank_counts.size(); ++row) {
    const double y = kTopMargin + static_cast<double>(row) * (kPanelHeight + kGap);
    for (std::size_t v = 0; v < 2; ++v) {
      text += panel_svg({kLeftMargin + static_cast<double>(v) * (kPanelWidth + kGap), y,
                         fmt::format("{}: {}", rank_count_text(rank_counts[row]), kTitles[v]),
                         rank_counts[row], value_functions[v], ranges[v], sizes},
                        measurements);
    }
  }
  return text + svg::end();
}

}  // namespace dlrun
