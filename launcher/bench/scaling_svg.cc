// Draws rates over ranks.

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "common/units.h"
#include "launcher/bench/scaling_model.h"
#include "launcher/drawing/svg.h"

namespace dlrun {
namespace {

using Measurements = std::vector<ScalingMeasurement>;
using Modelled = std::vector<ModelledRate>;

constexpr double kPlotWidth = 560, kPlotHeight = 340, kPlotLeft = 78, kPlotTop = 70;
constexpr std::string_view kStyle =
    " .modelled{stroke:#d55e00;stroke-dasharray:6 4} .measured{stroke:#0072b2} "
    ".ideal{stroke:#999;stroke-width:1}";

/// The axes: ranks to the right, samples per second upwards.
struct Axes {
  double fewest_ranks = 0, most_ranks = 0;
  double lowest_rate = 0, highest_rate = 0;  ///< powers of ten
  [[nodiscard]] double x(double ranks) const {
    return kPlotLeft + svg::log_position(ranks, fewest_ranks, most_ranks) * kPlotWidth;
  }
  [[nodiscard]] double y(double rate) const {
    return kPlotTop + (1 - svg::log_position(rate, lowest_rate, highest_rate)) * kPlotHeight;
  }
  [[nodiscard]] std::string point(double ranks, double rate) const {
    return svg::point(x(ranks), y(rate));
  }
};

Axes axes_of(const Measurements& measurements, const Modelled& modelled) {
  const ScalingMeasurement& base = measurements.front();
  Axes axes{static_cast<double>(base.ranks), static_cast<double>(base.ranks), base.samples_per_s,
            0};
  for (const ScalingMeasurement& m : measurements) {
    axes.most_ranks = std::max(axes.most_ranks, static_cast<double>(m.ranks));
    axes.lowest_rate = std::min(axes.lowest_rate, m.samples_per_s);
  }
  for (const ModelledRate& m : modelled) {
    axes.most_ranks = std::max(axes.most_ranks, static_cast<double>(m.ranks));
    axes.lowest_rate = std::min(axes.lowest_rate, m.low);
  }
  // The highest rate is that of ideal scaling, unless a measured rate is higher.
  axes.highest_rate = base.samples_per_s * axes.most_ranks / axes.fewest_ranks;
  for (const ScalingMeasurement& m : measurements)
    axes.highest_rate = std::max(axes.highest_rate, m.samples_per_s);
  axes.lowest_rate = std::pow(10, std::floor(std::log10(axes.lowest_rate)));
  axes.highest_rate = std::pow(10, std::ceil(std::log10(axes.highest_rate * 1.0001)));
  return axes;
}

std::string curve(const std::string& points, std::string_view name) {
  return svg::element("polyline", {{"points", svg::point_list(points)}, {"class", name}}) + "\n";
}

/// Returns the legend: a line of text below the title, with the names of the curves.
std::string legend(int base_ranks, bool has_modelled_rates) {
  std::string parts = svg::element("tspan", {{"fill", "#0072b2"}}, "measured");
  if (has_modelled_rates)
    parts += svg::element("tspan", {{"dx", "16"}, {"fill", "#d55e00"}}, "modelled");
  parts += svg::element(
      "tspan", {{"dx", "16"}, {"fill", "#777"}},
      fmt::format("every rank as fast as with {} rank{}", base_ranks, base_ranks == 1 ? "" : "s"));
  return svg::element("text", {{"x", svg::whole(kPlotLeft)}, {"y", "42"}}, parts) + "\n";
}

std::string ticks_of(const Axes& axes) {
  std::string drawn;
  for (double tick = axes.lowest_rate; tick <= axes.highest_rate * 1.001; tick *= 10)
    drawn += svg::grid_line(kPlotLeft, kPlotLeft + kPlotWidth, axes.y(tick), rate_text(tick));
  for (double tick = axes.fewest_ranks; tick <= axes.most_ranks * 1.001; tick *= 2) {
    drawn +=
        svg::text(
            {{"x", axes.x(tick)}, {"y", kPlotTop + kPlotHeight + 18}, {"text-anchor", "middle"}},
            svg::whole(tick)) +
        "\n";
  }
  return drawn +
         svg::text({{"x", kPlotLeft + kPlotWidth / 2},
                    {"y", kPlotTop + kPlotHeight + 38},
                    {"text-anchor", "middle"}},
                   "x axis: ranks; y axis: samples per second") +
         "\n";
}

/// Returns the curves of the predictions: the highest one, and the lowest one if it differs.
/// start: the last measurement, where both begin.
std::string modelled_curves(const Axes& axes, const ScalingMeasurement& start,
                            const Modelled& modelled) {
  std::string least = axes.point(start.ranks, start.samples_per_s), most = least;
  bool models_differ = false;
  for (const ModelledRate& m : modelled) {
    least += axes.point(m.ranks, m.low);
    most += axes.point(m.ranks, m.high);
    models_differ = models_differ || m.high > m.low * 1.0001;
  }
  return curve(most, "modelled") + (models_differ ? curve(least, "modelled") : "");
}

}  // namespace

std::string scaling_svg(const Measurements& measurements, const Modelled& modelled,
                        const std::string& title) {
  const ScalingMeasurement& base = measurements.front();
  const Axes axes = axes_of(measurements, modelled);
  std::string text = svg::beginning(kPlotLeft + kPlotWidth + 30, kPlotTop + kPlotHeight + 52,
                                    kStyle, kPlotLeft, title) +
                     legend(base.ranks, !modelled.empty()) + ticks_of(axes);
  text += curve(
      axes.point(axes.fewest_ranks, base.samples_per_s) +
          axes.point(axes.most_ranks, base.samples_per_s * axes.most_ranks / axes.fewest_ranks),
      "ideal");
  std::string measured;
  for (const ScalingMeasurement& m : measurements) {
    measured += axes.point(m.ranks, m.samples_per_s);
    text += svg::element("circle", {{"cx", axes.x(m.ranks)},
                                    {"cy", axes.y(m.samples_per_s)},
                                    {"r", "4"},
                                    {"fill", "#0072b2"}}) +
            "\n";
  }
  text += curve(measured, "measured");
  if (!modelled.empty()) text += modelled_curves(axes, measurements.back(), modelled);
  return text + svg::end();
}

}  // namespace dlrun
