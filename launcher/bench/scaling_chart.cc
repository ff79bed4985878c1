#include "launcher/bench/scaling_chart.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/units.h"

namespace dlrun {
namespace {

/// Returns "812", or "410 to 812" if the models disagree.
template <typename Shown>
std::string span_text(double low, double high, Shown shown) {
  const std::string first = shown(low), last = shown(high);
  return first == last ? first : first + " to " + last;
}

std::string models_text(const std::vector<ScalingModel>& models, const char* modelled_work) {
  std::string text =
      fmt::format("modelled, not measured: the time of a {} on n ranks is", modelled_work);
  for (std::size_t i = 0; i < models.size(); ++i) {
    const ScalingModel& m = models[i];
    text += fmt::format("{}{} + 2(n-1) x {} + 2(n-1)/n x {}", i == 0 ? " " : ", or ",
                        precise_duration_text(m.compute_s), precise_duration_text(m.latency_s),
                        precise_duration_text(m.transfer_s));
  }
  if (models.size() > 1)
    text +=
        " (with only two numbers of ranks, latency and transfer time cannot be told apart; "
        "measure a third number)";
  return text;
}

}  // namespace

ScalingTables scaling_tables(const std::vector<ScalingMeasurement>& measurements,
                             const std::vector<ScalingModel>& models,
                             const std::vector<ModelledRate>& modelled, const char* modelled_work) {
  ScalingTables tables;
  tables.measured = {{"NODES", "RANKS", "SAMPLES/S", "SPEED-UP", "EFFICIENCY", "RUN"}};
  for (const ScalingMeasurement& m : measurements) {
    tables.measured.push_back({fmt::format("{:>5}", m.nodes), fmt::format("{:>5}", m.ranks),
                               fmt::format("{:>9}", rate_text(m.samples_per_s)),
                               fmt::format("{:>8.2f}", speed_up(measurements, m.samples_per_s)),
                               fmt::format("{:>10}", fraction_as_percent_text(efficiency(
                                                         measurements, m.ranks, m.samples_per_s))),
                               m.run});
  }
  if (modelled.empty()) return tables;
  tables.models_text = models_text(models, modelled_work);
  tables.modelled = {{"RANKS", "SAMPLES/S, MODELLED", "EFFICIENCY, MODELLED"}};
  for (const ModelledRate& m : modelled) {
    tables.modelled.push_back(
        {fmt::format("{:>5}", m.ranks), fmt::format("{:>19}", span_text(m.low, m.high, rate_text)),
         fmt::format("{:>20}", span_text(efficiency(measurements, m.ranks, m.low),
                                         efficiency(measurements, m.ranks, m.high),
                                         fraction_as_percent_text))});
  }
  return tables;
}

BarChart scaling_bars(const std::vector<ScalingMeasurement>& measurements,
                      const std::vector<ModelledRate>& modelled) {
  BarChart chart{"efficiency: rate per rank, relative to the smallest number of ranks", {}};
  double largest = 1;
  for (const ScalingMeasurement& m : measurements)
    largest = std::max(largest, efficiency(measurements, m.ranks, m.samples_per_s));
  const auto label = [](int ranks) {
    return fmt::format("{:>5} rank{}", ranks, ranks == 1 ? " " : "s");
  };
  for (const ScalingMeasurement& m : measurements) {
    const double value = efficiency(measurements, m.ranks, m.samples_per_s);
    chart.bars.push_back({label(m.ranks), value / largest, fraction_as_percent_text(value)});
  }
  for (const ModelledRate& m : modelled) {
    const double low = efficiency(measurements, m.ranks, m.low),
                 high = efficiency(measurements, m.ranks, m.high);
    chart.bars.push_back({label(m.ranks), high / largest,
                          span_text(low, high, fraction_as_percent_text) + " modelled",
                          /*is_modelled=*/true});
  }
  return chart;
}

}  // namespace dlrun
