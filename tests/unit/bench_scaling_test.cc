// Tests `dlrun bench scaling`: the model of the throughput at each number of ranks, and the table
// and the drawing of measured and modelled throughputs.

#include <doctest/doctest.h>

#include "cli/terminal/printed_text.h"
#include "launcher/bench/scaling_chart.h"
#include "tests/contains.h"

using namespace dlrun;

namespace {

constexpr double kBatchPerRank = 32;

/// Returns measurements that match the model exactly, with one rank on each node.
std::vector<ScalingMeasurement> measurements_of(const ScalingModel& model,
                                                std::initializer_list<int> rank_counts) {
  std::vector<ScalingMeasurement> measurements;
  for (const int ranks : rank_counts)
    measurements.push_back({ranks, ranks, model.samples_per_s(ranks, kBatchPerRank), "r"});
  return measurements;
}

}  // namespace

TEST_CASE(
    "a modelled step takes the compute time, plus 2(n-1) latencies and 2(n-1)/n transfers of a "
    "ring all-reduce") {
  const ScalingModel model{1e-3, 1e-5, 4e-4};
  CHECK(model.step_s(1) == doctest::Approx(1e-3));
  CHECK(model.step_s(4) == doctest::Approx(1e-3 + 6e-5 + 6e-4));
  CHECK(model.samples_per_s(4, kBatchPerRank) == doctest::Approx(4 * 32 / 1.66e-3));
}

TEST_CASE(
    "with exact measurements at three or more numbers of ranks, the fit finds the model behind "
    "them") {
  const ScalingModel model{1e-3, 1e-5, 4e-4};
  const auto fits = fit_scaling(measurements_of(model, {1, 2, 4, 8}), kBatchPerRank);
  REQUIRE(fits.size() == 1);
  CHECK(fits[0].compute_s == doctest::Approx(model.compute_s).epsilon(1e-6));
  CHECK(fits[0].latency_s == doctest::Approx(model.latency_s).epsilon(1e-6));
  CHECK(fits[0].transfer_s == doctest::Approx(model.transfer_s).epsilon(1e-6));
}

TEST_CASE(
    "measurements at two numbers of ranks predict a range, and measurements at one number give no "
    "model") {
  const ScalingModel model{1e-3, 1e-5, 4e-4};
  const auto measurements = measurements_of(model, {1, 2});
  const auto fits = fit_scaling(measurements, kBatchPerRank);
  REQUIRE(fits.size() == 2);
  const auto modelled = predict_scaling(measurements, fits, kBatchPerRank);
  REQUIRE(modelled.size() == 9);  // 4, 8, ... 1024
  CHECK(modelled.front().ranks == 4);
  CHECK(modelled.back().ranks == 1024);
  for (const ModelledRate& one : modelled) {
    const double truth = model.samples_per_s(one.ranks, kBatchPerRank);
    CHECK(one.low <= truth);
    CHECK(truth <= one.high);
  }
  CHECK(fit_scaling(measurements_of(model, {2}), kBatchPerRank).empty());
  CHECK(predict_scaling(measurements_of(model, {2}), {}, kBatchPerRank).empty());
}

TEST_CASE(
    "no modelled cost is negative: superlinear speed-up gives a model without costs of "
    "communication") {
  const std::vector<ScalingMeasurement> measurements{
      {1, 1, 100, "a"}, {2, 2, 210, "b"}, {4, 4, 430, "c"}};
  const auto fits = fit_scaling(measurements, kBatchPerRank);
  REQUIRE(fits.size() == 1);
  CHECK(fits[0].latency_s == 0);
  CHECK(fits[0].transfer_s == 0);
  CHECK(fits[0].samples_per_s(1024, kBatchPerRank) == doctest::Approx(1024 * 105.5).epsilon(0.03));
}

TEST_CASE(
    "speed-up and efficiency are relative to the smallest number of ranks, also if it is above "
    "one") {
  const std::vector<ScalingMeasurement> measurements{{1, 4, 400, "a"}, {2, 8, 600, "b"}};
  CHECK(speed_up(measurements, 600) == doctest::Approx(1.5));
  CHECK(efficiency(measurements, 8, 600) == doctest::Approx(0.75));
}

TEST_CASE("the table marks modelled numbers, and gives the reason for their range") {
  const std::vector<ScalingMeasurement> measurements{{1, 2, 20'000, "one"}, {2, 4, 30'000, "two"}};
  const auto fits = fit_scaling(measurements, kBatchPerRank);
  const auto modelled = predict_scaling(measurements, fits, kBatchPerRank);
  const auto tables = scaling_tables(measurements, fits, modelled, "step");
  const std::string measured = table(tables.measured).plain();
  CHECK(measured.find("    1      2        20k      1.00       100 %  one\n") != std::string::npos);
  CHECK(measured.find("    2      4        30k      1.50        75 %  two\n") != std::string::npos);
  CHECK(tables.models_text.find("modelled, not measured: the time of a step on n ranks is ") !=
        std::string::npos);
  CHECK(tables.models_text.find("latency and transfer time cannot be told apart") !=
        std::string::npos);
  CHECK(table(tables.modelled).plain().find("RANKS  SAMPLES/S, MODELLED") != std::string::npos);
  const std::string bars = bar_chart(scaling_bars(measurements, modelled)).plain();
  CHECK(count(bars, "░") > 0);
  CHECK(count(bars, " modelled\n") == modelled.size());
  CHECK(scaling_tables(measurements, {}, {}, "step").models_text.empty());
  CHECK(scaling_tables(measurements, {}, {}, "step").modelled.empty());
}

TEST_CASE("the drawing has the measured and the modelled curves, and no invalid numbers") {
  const std::vector<ScalingMeasurement> measurements{{1, 2, 20'000, "one"}, {2, 4, 30'000, "two"}};
  const auto modelled =
      predict_scaling(measurements, fit_scaling(measurements, kBatchPerRank), kBatchPerRank);
  const std::string svg = scaling_svg(measurements, modelled, "a <b> & c");
  CHECK(svg.starts_with("<svg xmlns="));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(svg.find("a &lt;b&gt; &amp; c") != std::string::npos);
  CHECK(count(svg, "class=\"modelled\"/>") == 2);  // the lowest and the highest prediction
  CHECK(count(svg, "class=\"measured\"/>") == 1);
  CHECK(count(svg, ">modelled<") == 1);
  CHECK(count(svg, "<circle") == 2);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find("inf") == std::string::npos);
  const std::string alone = scaling_svg({measurements[0]}, {}, "one");
  CHECK(alone.find("modelled\"/>") == std::string::npos);
  CHECK(alone.find("nan") == std::string::npos);
}
