#include "launcher/report/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/core.h>

#include "common/text.h"

namespace dlrun {
namespace {

// Sizes in the drawing's own units. A unit is about a pixel when two charts stand side by side, and
// more than one on a phone.
constexpr double kWidth = 520, kHeight = 250;
constexpr double kLeft = 58, kRight = 20, kTop = 10, kBottom = 42;
constexpr double kPlotWidth = kWidth - kLeft - kRight, kPlotHeight = kHeight - kTop - kBottom;
constexpr std::size_t kPointsDrawn = 360;
constexpr std::size_t kDotsDrawn = 30;
constexpr double kLogarithmicFrom = 100;

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

/// Averages neighbours, so that no curve has more points than pixels.
std::vector<ChartPoint> thinned(const std::vector<ChartPoint>& points) {
  const auto parts = parts_of(points);
  std::size_t all = 0;
  for (const auto& part : parts) all += part.size();
  std::vector<ChartPoint> means;
  for (const auto& part : parts) {
    // Each part gets its share of the points, at least its two ends.
    const std::size_t share =
        all <= kPointsDrawn
            ? part.size()
            : std::min(part.size(), std::max<std::size_t>(2, kPointsDrawn * part.size() / all));
    for (std::size_t at = 0; at < share; ++at) {
      const std::size_t begin = at * part.size() / share, end = (at + 1) * part.size() / share;
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
  /// Maps a value to 0..1.
  [[nodiscard]] double along(double value) const {
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
  [[nodiscard]] bool is_empty() const { return low > high; }
};

Axis y_axis(const Chart& chart, Extent extent) {
  Axis axis;
  if (chart.may_be_logarithmic && extent.low > 0 && extent.high / extent.low > kLogarithmicFrom) {
    axis.is_logarithmic = true;
    axis.low = std::pow(10, std::floor(std::log10(extent.low)));
    axis.high = std::pow(10, std::ceil(std::log10(extent.high)));
    return axis;
  }
  if (chart.begins_at_zero) extent.low = std::min(extent.low, 0.0);
  if (chart.y_unit == ChartUnit::kPercent) extent.high = std::max(extent.high, 100.0);
  if (extent.high - extent.low < 1e-12 * std::max(1.0, std::abs(extent.high))) {
    const double room = extent.high == 0 ? 1 : std::abs(extent.high) * 0.1;
    extent.high += room;
    if (!chart.begins_at_zero) extent.low -= room;
  }
  const auto ticks = round_ticks(extent.low, extent.high, 4);
  const double step = ticks.size() > 1 ? ticks[1] - ticks[0] : extent.high - extent.low;
  axis.low = std::floor(extent.low / step + 1e-9) * step;
  axis.high = std::ceil(extent.high / step - 1e-9) * step;
  return axis;
}

/// The unit of an axis. For bytes it is a power of 1024, so that the ticks are round numbers of it.
struct Scale {
  double divisor = 1;
  std::string_view suffix;
};
Scale bytes_scale(double most) {
  constexpr std::array<std::string_view, 6> kUnits{" B", " KiB", " MiB", " GiB", " TiB", " PiB"};
  Scale scale{1, kUnits[0]};
  for (std::size_t unit = 1; unit < kUnits.size() && most / scale.divisor >= 1024; ++unit) {
    scale = {scale.divisor * 1024, kUnits[unit]};
  }
  return scale;
}
Scale time_scale(double seconds) {
  if (seconds < 180) return {1, "seconds"};
  if (seconds < 3 * 3600) return {60, "minutes"};
  if (seconds < 3 * 86400) return {3600, "hours"};
  return {86400, "days"};
}

std::string points_text(const std::vector<ChartPoint>& points, const Axis& x, const Axis& y) {
  std::string text;
  for (const ChartPoint& point : points) {
    if (y.is_logarithmic && point.y <= 0) continue;
    text += fmt::format("{:.1f},{:.1f} ", kLeft + x.along(point.x) * kPlotWidth,
                        kTop + (1 - y.along(point.y)) * kPlotHeight);
  }
  if (!text.empty()) text.pop_back();
  return text;
}

std::string label_of(double value, ChartUnit unit) {
  return unit == ChartUnit::kPercent ? fmt::format("{} %", short_number(value))
                                     : short_number(value);
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string escape_html_lines(std::string_view text) {
  std::string out;
  for (const auto line : split(text, '\n')) {
    if (!out.empty()) out += '\n';
    out += escape_html(line);
  }
  return out;
}

std::string short_number(double value) {
  const double size = std::abs(value);
  if (size >= 1e9) return fmt::format("{:.3g}G", value / 1e9);
  if (size >= 1e6) return fmt::format("{:.3g}M", value / 1e6);
  if (size >= 1e4) return fmt::format("{:.3g}k", value / 1e3);
  return fmt::format("{:.4g}", value);
}

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
  Extent x_extent, y_extent;
  std::vector<ChartSeries> series;
  bool has_curve = false;
  for (const ChartSeries& one : chart.series) {
    ChartSeries drawn = one;
    drawn.points = thinned(one.points);
    has_curve = has_curve || drawn.points.size() >= 2;
    for (const ChartPoint& point : drawn.points) {
      x_extent.add(point.x);
      y_extent.add(point.y);
    }
    if (!drawn.points.empty()) series.push_back(std::move(drawn));
  }
  if (!has_curve) return "";
  std::vector<ChartBand> bands;
  for (const ChartBand& one : chart.bands) {
    ChartBand band{one.colour, thinned(one.least), thinned(one.most)};
    for (const auto* edge : {&band.least, &band.most}) {
      for (const ChartPoint& point : *edge) y_extent.add(point.y);
    }
    bands.push_back(std::move(band));
  }

  Axis x{x_extent.low, x_extent.high};
  if (chart.x_is_time) x.low = std::min(0.0, x.low);
  if (x.high <= x.low) x.high = x.low + 1;
  const Scale y_scale = chart.y_unit == ChartUnit::kBytes ? bytes_scale(y_extent.high) : Scale{};
  Axis y = y_axis(chart, {y_extent.low / y_scale.divisor, y_extent.high / y_scale.divisor});
  std::vector<double> y_ticks;
  if (y.is_logarithmic) {
    const double decades = std::log10(y.high / y.low);
    const double every = std::pow(10, std::ceil(decades / 6));
    for (double tick = y.low; tick <= y.high * 1.001; tick *= every) y_ticks.push_back(tick);
  } else {
    y_ticks = round_ticks(y.low, y.high, 5);
  }
  const auto y_of = [&](double value) { return kTop + (1 - y.along(value)) * kPlotHeight; };

  std::string svg =
      fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">\n", kWidth,
                  kHeight, escape_html(chart.title));
  for (const double tick : y_ticks) {
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
        "<text class=\"end\" x=\"{3:.1f}\" y=\"{4:.1f}\">{5}{6}</text>\n",
        kLeft, kLeft + kPlotWidth, y_of(tick), kLeft - 6, y_of(tick) + 4,
        label_of(tick, chart.y_unit), y_scale.suffix);
  }
  const Scale x_scale = chart.x_is_time ? time_scale(x.high) : Scale{1, "steps"};
  for (const double tick : round_ticks(x.low / x_scale.divisor, x.high / x_scale.divisor, 6)) {
    const double at = kLeft + x.along(tick * x_scale.divisor) * kPlotWidth;
    svg += fmt::format(
        "<line class=\"tick\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>"
        "<text class=\"mid\" x=\"{0:.1f}\" y=\"{3:.1f}\">{4}</text>\n",
        at, kTop + kPlotHeight, kTop + kPlotHeight + 4, kTop + kPlotHeight + 17,
        short_number(tick));
  }
  svg += fmt::format("<text class=\"mid axis\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                     kLeft + kPlotWidth / 2, kHeight - 6, x_scale.suffix);
  svg += fmt::format(
      "<line class=\"base\" x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>\n", kLeft,
      kLeft + kPlotWidth, kTop + kPlotHeight);
  for (const double mark : chart.marks) {
    if (mark <= x.low || mark >= x.high) continue;
    svg += fmt::format(
        "<line class=\"mark\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>\n",
        kLeft + x.along(mark) * kPlotWidth, kTop, kTop + kPlotHeight);
  }
  const auto scaled_parts = [&](std::vector<ChartPoint> points) {
    for (ChartPoint& point : points) point.y /= y_scale.divisor;
    return parts_of(points);
  };
  for (const ChartBand& band : bands) {
    auto edges = scaled_parts(band.most);
    const auto least = scaled_parts(band.least);
    for (std::size_t at = 0; at < std::min(edges.size(), least.size()); ++at) {
      edges[at].insert(edges[at].end(), least[at].rbegin(), least[at].rend());
      svg += fmt::format("<polygon class=\"band f{}\" points=\"{}\"/>\n",
                         band.colour % kChartColours, points_text(edges[at], x, y));
    }
  }
  for (const ChartSeries& one : series) {
    const bool has_dots = one.has_dots && one.points.size() <= kDotsDrawn;
    for (const auto& points : scaled_parts(one.points)) {
      if (points.size() > 1)
        svg += fmt::format("<polyline class=\"c{}\" points=\"{}\"/>\n", one.colour % kChartColours,
                           points_text(points, x, y));
      if (!has_dots && points.size() > 1) continue;  // a single point gets a dot
      for (const ChartPoint& point : points) {
        if (y.is_logarithmic && point.y <= 0) continue;
        svg += fmt::format(
            "<circle class=\"f{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" "
            "r=\"2.6\"><title>{}</title></circle>\n",
            one.colour % kChartColours, kLeft + x.along(point.x) * kPlotWidth, y_of(point.y),
            escape_html(fmt::format("{} {}", one.name, short_number(point.y))));
      }
    }
  }
  svg += "</svg>";

  std::string legend;
  if (series.size() > 1) {
    for (const ChartSeries& one : series) {
      legend += fmt::format("<span class=\"key\"><i class=\"b{}\"></i>{}</span>",
                            one.colour % kChartColours, escape_html(one.name));
    }
  }
  std::string unit = chart.unit;
  if (y.is_logarithmic) unit += unit.empty() ? "logarithmic" : ", logarithmic";
  return fmt::format(
      "<figure><figcaption><b>{}</b>{}{}</figcaption>\n{}</figure>\n", escape_html(chart.title),
      unit.empty() ? "" : fmt::format(" <span class=\"unit\">{}</span>", escape_html(unit)),
      legend.empty() ? "" : fmt::format("<span class=\"keys\">{}</span>", legend), svg);
}

}  // namespace dlrun
