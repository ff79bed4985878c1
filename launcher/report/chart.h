#pragma once
// Curves as SVG, drawn for a page: no scripts, no network, colours by CSS classes c0..c7 of the
// page. Pure.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dlrun {

struct ChartPoint {
  double x = 0, y = 0;
  std::int64_t part = 0;  ///< neighbours of two parts are not joined
};

struct ChartSeries {
  std::string name;
  std::size_t colour = 0;  ///< of the page's kChartColours
  std::vector<ChartPoint> points;
  bool has_dots = false;  ///< few points, far between: each is shown
};

/// What lies between two curves: the least and the most of many.
struct ChartBand {
  std::size_t colour = 0;
  std::vector<ChartPoint> least, most;  ///< the same x in the same order
};

enum class ChartUnit { kPlain, kBytes, kPercent };

struct Chart {
  std::string title;
  std::string unit;  ///< in words, beside the title; "logarithmic" is added where the axis is
  ChartUnit y_unit = ChartUnit::kPlain;
  bool begins_at_zero = false;
  bool may_be_logarithmic = false;  ///< it is where the values span more than two powers of ten
  bool x_is_time = false;           ///< seconds since the start; else steps
  std::vector<ChartSeries> series;
  std::vector<ChartBand> bands;
  std::vector<double> marks;  ///< x of vertical lines: where an attempt began
};

inline constexpr std::size_t kChartColours = 8;

/// A <figure>: title and legend as HTML that wraps, the curves as SVG that scales. Empty without
/// two points in one series. Points that are not finite are left out, many points become the means
/// of neighbours. Names are escaped.
[[nodiscard]] std::string figure_html(const Chart& chart);

/// Text for HTML, between tags or in a quoted attribute; control characters are made visible.
[[nodiscard]] std::string escape_html(std::string_view text);
/// The same of several lines.
[[nodiscard]] std::string escape_html_lines(std::string_view text);

/// Round numbers that divide [low, high] into about count parts, from the first inside to the last.
[[nodiscard]] std::vector<double> round_ticks(double low, double high, std::size_t count);

/// "84.3k", "0.981", "1.2e-05"
[[nodiscard]] std::string short_number(double value);

}  // namespace dlrun
