#include "cli/terminal/scaling_chart.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "common/units.h"

namespace dlrun {
namespace {

using Figures = std::vector<ScalingFigure>;
using Modelled = std::vector<ModelledFigure>;

/// Returns "812", or "410 to 812" if the models disagree.
template <typename Shown>
std::string span(double low, double high, Shown shown) {
  const std::string first = shown(low), last = shown(high);
  return first == last ? first : first + " to " + last;
}

}  // namespace

Text scaling_table(const Figures& figures, const std::vector<ScalingModel>& models,
                   const Modelled& modelled, const char* per) {
  std::vector<std::vector<std::string>> rows(
      1, {"NODES", "RANKS", "SAMPLES/S", "SPEED-UP", "EFFICIENCY", "RUN"});
  for (const ScalingFigure& f : figures) {
    rows.push_back(
        {fmt::format("{:>5}", f.nodes), fmt::format("{:>5}", f.ranks),
         fmt::format("{:>9}", rate_text(f.samples_per_s)),
         fmt::format("{:>8.2f}", speed_up(figures, f.samples_per_s)),
         fmt::format("{:>10}", percent_text(efficiency(figures, f.ranks, f.samples_per_s))),
         f.run});
  }
  Text text = table(rows);
  if (modelled.empty()) return text;
  text.add("\nmodelled, not measured: n ranks take for a {}", per);
  for (std::size_t i = 0; i < models.size(); ++i) {
    const ScalingModel& m = models[i];
    text.add("{}{} + 2(n-1) x {} + 2(n-1)/n x {}", i == 0 ? " " : ", or ",
             step_time_text(m.compute_s), step_time_text(m.latency_s),
             step_time_text(m.transfer_s));
  }
  text.add("{}\n", models.size() > 1
                       ? " (with only two measured sizes, latency and transfer time cannot be "
                         "told apart; measure a third size)"
                       : "");
  std::vector<std::vector<std::string>> more(
      1, {"RANKS", "SAMPLES/S, MODELLED", "EFFICIENCY, MODELLED"});
  for (const ModelledFigure& f : modelled) {
    more.push_back(
        {fmt::format("{:>5}", f.ranks), fmt::format("{:>19}", span(f.low, f.high, rate_text)),
         fmt::format("{:>20}", span(efficiency(figures, f.ranks, f.low),
                                    efficiency(figures, f.ranks, f.high), percent_text))});
  }
  return text.add(table(more));
}

Text scaling_bars(const Figures& figures, const Modelled& modelled) {
  constexpr double kWidth = 48;
  std::string text = "efficiency: rate per rank, relative to the smallest number of ranks\n";
  double most = 1;
  for (const ScalingFigure& f : figures)
    most = std::max(most, efficiency(figures, f.ranks, f.samples_per_s));
  const auto bar = [&](int ranks, double part, const char* block, const std::string& words) {
    text += fmt::format("  {:>5} rank{} ", ranks, ranks == 1 ? " " : "s");
    const long blocks = std::lround(part / most * kWidth);
    for (long i = 0; i < std::max(blocks, 1L); ++i) text += block;
    text += " " + words + "\n";
  };
  for (const ScalingFigure& f : figures) {
    const double part = efficiency(figures, f.ranks, f.samples_per_s);
    bar(f.ranks, part, "█", percent_text(part));
  }
  for (const ModelledFigure& f : modelled) {
    const double low = efficiency(figures, f.ranks, f.low),
                 high = efficiency(figures, f.ranks, f.high);
    bar(f.ranks, high, "░", span(low, high, percent_text) + " modelled");
  }
  return Text::of_lines(text);
}

}  // namespace dlrun
