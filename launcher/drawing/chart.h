#pragma once
// Draws curves as SVG for an HTML page, without scripts. The page's CSS classes define the colours:
// c0..c7 for curves, f0..f7 for dots and bands, b0..b7 for the legend. Pure functions.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dlrun {

struct ChartPoint {
  double x = 0, y = 0;
  std::int64_t part = 0;  ///< a line joins neighbouring points only if their parts are equal
};

struct ChartSeries {
  std::string name;
  std::size_t colour = 0;  ///< index into the page's colours
  std::vector<ChartPoint> points;
  /// Draws a dot at each point, unless the series has more than 30 points. A point that is alone in
  /// its part always has a dot.
  bool has_dots = false;
};

/// The area between two curves: the least and the greatest of many values.
struct ChartBand {
  std::size_t colour = 0;
  std::vector<ChartPoint> least, most;  ///< points with the same x in the same order
};

enum class ChartUnit { kPlain, kBytes, kPercent };

/// One figure.
struct Chart {
  std::string title;
  /// Shown beside the title, with ", logarithmic" if the y axis is logarithmic.
  std::string subtitle;
  ChartUnit y_unit = ChartUnit::kPlain;
  bool y_begins_at_zero = false;
  /// The y axis is logarithmic if all values are positive and span more than two powers of ten.
  bool may_be_logarithmic = false;
  bool x_is_time = false;        ///< true: x is in seconds since the start; false: in x_unit
  std::string x_unit = "steps";  ///< the name of x: "steps", "epochs", "samples"
  std::vector<ChartSeries> series;
  std::vector<ChartBand> bands;
  std::vector<double> marks;  ///< x of vertical lines: where an attempt began
};

inline constexpr std::size_t kChartColourCount = 8;

/// Returns a <figure>: title and legend as HTML that wraps, the curves as SVG that scales. A single
/// series has no legend. Returns an empty text if each series has fewer than two points. Leaves out
/// points that are not finite, and averages neighbours if there are many points. Escapes names.
[[nodiscard]] std::string figure_html(const Chart& chart);

/// Returns round numbers that divide [low, high] into about count parts, in ascending order.
/// Returns only `low` if the interval is empty or count is 0.
[[nodiscard]] std::vector<double> round_ticks(double low, double high, std::size_t count);

}  // namespace dlrun
