#include "launcher/drawing/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/core.h>

#include "common/units.h"
#include "launcher/drawing/escape.h"
#include "launcher/drawing/svg.h"

namespace dlrun {
namespace {

// Sizes in the drawing's units. A unit is about a pixel if the page shows two charts side by side,
// and less on a phone.
constexpr double kWidth = 520, kHeight = 250;
constexpr double kLeftMargin = 58, kRightMargin = 20, kTopMargin = 10, kBottomMargin = 42;
constexpr double kPlotWidth = kWidth - kLeftMargin - kRightMargin,
                 kPlotHeight = kHeight - kTopMargin - kBottomMargin;
constexpr std::size_t kMostPoints = 360;
constexpr std::size_t kMostDots = 30;
constexpr double kLogarithmicFrom = 100;  // ratio of the largest to the smallest value

/// Returns the points of each part in order. Leaves out points that are not finite.
std::vector<std::vector<ChartPoint>> parts_of(const std::vector<ChartPoint>& points) {
  std::vector<std::vector<ChartPoint>> parts;
  for (const ChartPoint& point : points) {
    if (!std::isfinite(point.x) || !std::isfinite(point.y)) continue;
    if (parts.empty() || parts.back().back().part != point.part) parts.emplace_back();
    parts.back().push_back(point);
  }
  return parts;
}

/// Averages neighbouring points if there are more than kMostPoints, so that a curve has at
/// most about as many points as pixels.
std::vector<ChartPoint> thinned(const std::vector<ChartPoint>& points) {
  const auto parts = parts_of(points);
  std::size_t point_count = 0;
  for (const auto& part : parts) point_count += part.size();
  std::vector<ChartPoint> means;
  for (const auto& part : parts) {
    // Each part keeps a share of kMostPoints in proportion to its number of points, but at least
    // two points (or its only one).
    const std::size_t count =
        point_count <= kMostPoints
            ? part.size()
            : std::min(part.size(),
                       std::max<std::size_t>(2, kMostPoints * part.size() / point_count));
    for (std::size_t at = 0; at < count; ++at) {
      const std::size_t begin = at * part.size() / count, end = (at + 1) * part.size() / count;
      ChartPoint mean{0, 0, part.front().part};
      for (std::size_t i = begin; i < end; ++i) {
        mean.x += part[i].x / static_cast<double>(end - begin);
        mean.y += part[i].y / static_cast<double>(end - begin);
      }
      means.push_back(mean);
    }
  }
  return means;
}

struct Axis {
  double low = 0, high = 1;
  bool is_logarithmic = false;
  /// Returns where a value lies on the axis, from 0 (low) to 1 (high).
  [[nodiscard]] double position_of(double value) const {
    if (is_logarithmic)
      return (std::log10(value) - std::log10(low)) / (std::log10(high) - std::log10(low));
    return (value - low) / (high - low);
  }
};

struct Extent {
  double low = std::numeric_limits<double>::infinity(),
         high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

constexpr double kHighestPower = std::numeric_limits<double>::max_exponent10;
constexpr std::size_t kMostTicks = 20;

Axis y_axis(const Chart& chart, Extent extent) {
  Axis axis;
  if (chart.may_be_logarithmic && extent.low > 0 && extent.high / extent.low > kLogarithmicFrom) {
    axis.is_logarithmic = true;
    axis.low = std::pow(10, std::floor(std::log10(extent.low)));
    // The axis ends at a power of ten, at most the highest that a double can hold.
    axis.high = std::pow(10, std::min(std::ceil(std::log10(extent.high)), kHighestPower));
    axis.low = std::max(axis.low, std::numeric_limits<double>::min());
    return axis;
  }
  if (chart.y_begins_at_zero) extent.low = std::min(extent.low, 0.0);
  if (chart.y_unit == ChartUnit::kPercent) extent.high = std::max(extent.high, 100.0);
  if (extent.high - extent.low < 1e-12 * std::max(1.0, std::abs(extent.high))) {
    const double margin = extent.high == 0 ? 1 : std::abs(extent.high) * 0.1;
    extent.high += margin;
    if (!chart.y_begins_at_zero) extent.low -= margin;
  }
  const auto ticks = round_ticks(extent.low, extent.high, 4);
  const double step = ticks.size() > 1 ? ticks[1] - ticks[0] : extent.high - extent.low;
  axis.low = std::floor(extent.low / step + 1e-9) * step;
  axis.high = std::ceil(extent.high / step - 1e-9) * step;
  return axis;
}

/// The unit of an axis. For bytes, the divisor is a power of 1024, so that the ticks are round
/// numbers of the unit.
struct Scale {
  double divisor = 1;
  std::string suffix;  ///< " MiB" after the number of each tick, or "hours" below the axis
};
Scale bytes_axis_scale(double most) {
  const ByteScale scale = byte_scale(most);
  return {scale.divisor, fmt::format(" {}", scale.unit)};
}
Scale time_axis_scale(double seconds) {
  if (seconds < 180) return {1, "seconds"};
  if (seconds < 3 * 3600) return {60, "minutes"};
  if (seconds < 3 * 86400) return {3600, "hours"};
  return {86400, "days"};
}

std::string label_of(double value, ChartUnit unit) {
  return unit == ChartUnit::kPercent ? fmt::format("{} %", short_value_text(value))
                                     : short_value_text(value);
}

/// A chart with its axes.
class Drawing {
 public:
  explicit Drawing(const Chart& chart);
  /// Returns true if a series has two points or more.
  [[nodiscard]] bool has_curve() const { return has_curve_; }
  [[nodiscard]] std::string svg() const;
  [[nodiscard]] std::string legend() const;
  [[nodiscard]] bool is_logarithmic() const { return y_.is_logarithmic; }

 private:
  void add_series_and_bands();
  void decide_axes();
  [[nodiscard]] std::vector<double> y_ticks() const;
  [[nodiscard]] double x_of(double value) const {
    return kLeftMargin + x_.position_of(value) * kPlotWidth;
  }
  /// Returns the y coordinate of a value. value: in the unit of the axis.
  [[nodiscard]] double y_of(double value) const {
    return kTopMargin + (1 - y_.position_of(value)) * kPlotHeight;
  }
  [[nodiscard]] std::string points_text(const std::vector<ChartPoint>& points) const;
  [[nodiscard]] std::vector<std::vector<ChartPoint>> scaled_parts(
      std::vector<ChartPoint> points) const;
  [[nodiscard]] std::string grid() const;
  [[nodiscard]] std::string marks() const;
  [[nodiscard]] std::string bands() const;
  [[nodiscard]] std::string curves() const;
  [[nodiscard]] std::string dots(const ChartSeries& one,
                                 const std::vector<ChartPoint>& points) const;

  const Chart& chart_;
  std::vector<ChartSeries> series_;  ///< the series that have points, thinned
  std::vector<ChartBand> bands_;
  Extent x_extent_, y_extent_;
  bool has_curve_ = false;
  Axis x_, y_;
  Scale y_scale_;
};

Drawing::Drawing(const Chart& chart) : chart_(chart) {
  add_series_and_bands();
  if (has_curve_) decide_axes();
}

void Drawing::add_series_and_bands() {
  for (const ChartSeries& one : chart_.series) {
    ChartSeries drawn = one;
    drawn.points = thinned(one.points);
    has_curve_ = has_curve_ || drawn.points.size() >= 2;
    for (const ChartPoint& point : drawn.points) {
      x_extent_.add(point.x);
      y_extent_.add(point.y);
    }
    if (!drawn.points.empty()) series_.push_back(std::move(drawn));
  }
  for (const ChartBand& one : chart_.bands) {
    ChartBand band{one.colour, thinned(one.least), thinned(one.most)};
    for (const auto* edge : {&band.least, &band.most}) {
      for (const ChartPoint& point : *edge) y_extent_.add(point.y);
    }
    bands_.push_back(std::move(band));
  }
}

void Drawing::decide_axes() {
  x_ = {x_extent_.low, x_extent_.high};
  if (chart_.x_is_time) x_.low = std::min(0.0, x_.low);
  if (x_.high <= x_.low) x_.high = x_.low + 1;
  if (chart_.y_unit == ChartUnit::kBytes) y_scale_ = bytes_axis_scale(y_extent_.high);
  y_ = y_axis(chart_, {y_extent_.low / y_scale_.divisor, y_extent_.high / y_scale_.divisor});
}

std::vector<double> Drawing::y_ticks() const {
  if (!y_.is_logarithmic) return round_ticks(y_.low, y_.high, 5);
  std::vector<double> ticks;
  const double decades = std::log10(y_.high / y_.low);
  const double tick_factor = std::pow(10, std::ceil(decades / 6));
  for (double tick = y_.low; ticks.size() < kMostTicks && tick <= y_.high * 1.001;
       tick *= tick_factor)
    ticks.push_back(tick);
  return ticks;
}

std::string Drawing::points_text(const std::vector<ChartPoint>& points) const {
  std::string text;
  for (const ChartPoint& point : points) {
    if (!y_.is_logarithmic || point.y > 0) text += svg::point(x_of(point.x), y_of(point.y));
  }
  return svg::point_list(text);
}

std::vector<std::vector<ChartPoint>> Drawing::scaled_parts(std::vector<ChartPoint> points) const {
  for (ChartPoint& point : points) point.y /= y_scale_.divisor;
  return parts_of(points);
}

/// Returns the grid and the ticks with their labels.
std::string Drawing::grid() const {
  constexpr double kBase = kTopMargin + kPlotHeight;
  std::string drawn;
  for (const double tick : y_ticks()) {
    const double y = y_of(tick);
    drawn += svg::element("line", {{"class", "grid"},
                                   {"x1", kLeftMargin},
                                   {"x2", kLeftMargin + kPlotWidth},
                                   {"y1", y},
                                   {"y2", y}}) +
             svg::text({{"class", "end"}, {"x", kLeftMargin - 6}, {"y", y + 4}},
                       label_of(tick, chart_.y_unit) + y_scale_.suffix) +
             "\n";
  }
  const Scale scale = chart_.x_is_time ? time_axis_scale(x_.high) : Scale{1, chart_.x_unit};
  for (const double tick : round_ticks(x_.low / scale.divisor, x_.high / scale.divisor, 6)) {
    const double x = x_of(tick * scale.divisor);
    drawn +=
        svg::element("line",
                     {{"class", "tick"}, {"x1", x}, {"x2", x}, {"y1", kBase}, {"y2", kBase + 4}}) +
        svg::text({{"class", "mid"}, {"x", x}, {"y", kBase + 17}}, short_value_text(tick)) + "\n";
  }
  return drawn +
         svg::text({{"class", "mid axis"}, {"x", kLeftMargin + kPlotWidth / 2}, {"y", kHeight - 6}},
                   scale.suffix) +
         "\n" +
         svg::element("line", {{"class", "base"},
                               {"x1", kLeftMargin},
                               {"x2", kLeftMargin + kPlotWidth},
                               {"y1", kBase},
                               {"y2", kBase}}) +
         "\n";
}

std::string Drawing::marks() const {
  std::string drawn;
  for (const double mark : chart_.marks) {
    if (mark <= x_.low || mark >= x_.high) continue;
    drawn += svg::element("line", {{"class", "mark"},
                                   {"x1", x_of(mark)},
                                   {"x2", x_of(mark)},
                                   {"y1", kTopMargin},
                                   {"y2", kTopMargin + kPlotHeight}}) +
             "\n";
  }
  return drawn;
}

std::string Drawing::bands() const {
  std::string drawn;
  for (const ChartBand& band : bands_) {
    auto outlines = scaled_parts(band.most);
    const auto least = scaled_parts(band.least);
    for (std::size_t at = 0; at < std::min(outlines.size(), least.size()); ++at) {
      outlines[at].insert(outlines[at].end(), least[at].rbegin(), least[at].rend());
      drawn += svg::element("polygon",
                            {{"class", fmt::format("band f{}", band.colour % kChartColourCount)},
                             {"points", points_text(outlines[at])}}) +
               "\n";
    }
  }
  return drawn;
}

std::string Drawing::dots(const ChartSeries& one, const std::vector<ChartPoint>& points) const {
  std::string drawn;
  for (const ChartPoint& point : points) {
    if (y_.is_logarithmic && point.y <= 0) continue;
    const std::string label =
        escape_html(fmt::format("{} {}", one.name, short_value_text(point.y)));
    drawn += svg::element("circle",
                          {{"class", fmt::format("f{}", one.colour % kChartColourCount)},
                           {"cx", x_of(point.x)},
                           {"cy", y_of(point.y)},
                           {"r", "2.6"}},
                          svg::element("title", {}, label)) +
             "\n";
  }
  return drawn;
}

std::string Drawing::curves() const {
  std::string drawn;
  for (const ChartSeries& one : series_) {
    const bool has_dots = one.has_dots && one.points.size() <= kMostDots;
    for (const auto& points : scaled_parts(one.points)) {
      if (points.size() > 1)
        drawn +=
            svg::element("polyline", {{"class", fmt::format("c{}", one.colour % kChartColourCount)},
                                      {"points", points_text(points)}}) +
            "\n";
      if (has_dots || points.size() == 1) drawn += dots(one, points);
    }
  }
  return drawn;
}

std::string Drawing::svg() const {
  const std::string box = fmt::format("0 0 {:.0f} {:.0f}", kWidth, kHeight);
  return svg::element("svg", {{"viewBox", box}, {"role", "img"}, {"aria-label", chart_.title}},
                      "\n" + grid() + marks() + bands() + curves());
}

std::string Drawing::legend() const {
  std::string keys;
  if (series_.size() < 2) return keys;
  for (const ChartSeries& one : series_) {
    keys += fmt::format("<span class=\"key\"><i class=\"b{}\"></i>{}</span>",
                        one.colour % kChartColourCount, escape_html(one.name));
  }
  return fmt::format("<span class=\"keys\">{}</span>", keys);
}

}  // namespace

std::vector<double> round_ticks(double low, double high, std::size_t count) {
  if (!(high > low) || count == 0) return {low};
  const double rough = (high - low) / static_cast<double>(count);
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> ticks;
  for (double at = std::ceil(low / step - 1e-9); at * step <= high + step * 1e-9; ++at) {
    ticks.push_back(at == 0 ? 0 : at * step);
    if (ticks.size() > 100) break;
  }
  return ticks;
}

std::string figure_html(const Chart& chart) {
  const Drawing drawing(chart);
  if (!drawing.has_curve()) return "";
  std::string subtitle = chart.subtitle;
  if (drawing.is_logarithmic()) subtitle += subtitle.empty() ? "logarithmic" : ", logarithmic";
  return fmt::format(
      "<figure><figcaption><b>{}</b>{}{}</figcaption>\n{}</figure>\n", escape_html(chart.title),
      subtitle.empty() ? "" : fmt::format(" <span class=\"unit\">{}</span>", escape_html(subtitle)),
      drawing.legend(), drawing.svg());
}

}  // namespace dlrun
