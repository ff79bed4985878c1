#include "launcher/report/run_charts.h"

#include <algorithm>
#include <optional>

#include <fmt/core.h>

#include "launcher/report/chart.h"
#include "launcher/report/page_parts.h"

namespace dlrun {
namespace {

using page::begin_of;

/// Returns the run's name in a legend. The table above the curves shows a point's values.
const std::string& name_of(const RunReport& report) {
  return report.place.empty() ? report.label : report.place;
}

/// Returns a curve of values that the program reported: from metrics.jsonl if there is one, else
/// from the run's record.
std::vector<ChartPoint> curve(const RunReport& report, std::optional<double> MetricsPoint::*metric,
                              std::optional<double> ProgressPoint::*progress, bool over_steps) {
  std::vector<ChartPoint> points;
  const double begin = begin_of(report);
  const auto add = [&](const auto& point, const std::optional<double>& value) {
    if (!value || (over_steps && !point.step)) return;
    points.push_back(
        {over_steps ? static_cast<double>(*point.step) : point.t - begin, *value, point.attempt});
  };
  for (const MetricsPoint& point : report.metrics) add(point, point.*metric);
  if (points.empty() && progress != nullptr) {
    for (const ProgressPoint& point : report.history.progress()) add(point, point.*progress);
  }
  return points;
}

/// Adds the spread of a value over the ranks as time passes: the mean, and a band from the least to
/// the greatest value.
void add_spread(Chart& chart, const RunReport& report, const std::string& name, std::size_t colour,
                std::optional<Spread> SamplesPoint::*field, bool has_band) {
  ChartSeries mean{name, colour, {}};
  ChartBand band{colour, {}, {}};
  for (const SamplesPoint& point : report.history.samples()) {
    const auto& spread = point.*field;
    if (!spread) continue;
    const double x = point.t - begin_of(report);
    mean.points.push_back({x, spread->mean, point.attempt});
    band.least.push_back({x, spread->least, point.attempt});
    band.most.push_back({x, spread->most, point.attempt});
  }
  chart.series.push_back(std::move(mean));
  if (has_band) chart.bands.push_back(std::move(band));
}

std::vector<double> attempt_marks(const RunReport& report) {
  std::vector<double> marks;
  for (std::size_t at = 1; at < report.history.attempts().size(); ++at)
    marks.push_back(report.history.attempts()[at].claimed - begin_of(report));
  return marks;
}

}  // namespace

std::string charts_html(const std::vector<const RunReport*>& reports) {
  const bool is_one = reports.size() == 1;
  const bool has_steps = std::all_of(reports.begin(), reports.end(), [](const RunReport* report) {
    return std::any_of(report->metrics.begin(), report->metrics.end(),
                       [](const auto& point) { return point.step.has_value(); }) ||
           (report->metrics.empty() && report->history.progress().empty()) ||
           std::any_of(report->history.progress().begin(), report->history.progress().end(),
                       [](const auto& point) { return point.step.has_value(); });
  });
  std::string text;
  const auto reported =
      [&](std::string title, std::string unit, std::optional<double> MetricsPoint::*train,
          std::optional<double> ProgressPoint::*progress, std::optional<double> MetricsPoint::*test,
          bool is_logarithmic, bool over_steps) {
        Chart chart;
        chart.title = std::move(title);
        chart.unit = std::move(unit);
        chart.may_be_logarithmic = is_logarithmic;
        chart.x_is_time = !over_steps;
        for (std::size_t at = 0; at < reports.size(); ++at) {
          if (train != nullptr)
            chart.series.push_back({is_one ? "training" : name_of(*reports[at]), at,
                                    curve(*reports[at], train, progress, over_steps)});
          if (test != nullptr) {
            auto points = curve(*reports[at], test, nullptr, over_steps);
            if (!points.empty())
              chart.series.push_back({is_one ? "test" : name_of(*reports[at]), is_one ? 1 : at,
                                      std::move(points), true});
          }
        }
        if (is_one && !over_steps) chart.marks = attempt_marks(*reports[0]);
        text += figure_html(chart);
      };
  if (is_one) {
    reported("Loss", "", &MetricsPoint::loss, &ProgressPoint::loss, &MetricsPoint::test_loss, true,
             has_steps);
    reported("Accuracy", "", &MetricsPoint::accuracy, &ProgressPoint::accuracy,
             &MetricsPoint::test_accuracy, false, has_steps);
  } else {
    reported("Training loss", "", &MetricsPoint::loss, &ProgressPoint::loss, nullptr, true,
             has_steps);
    reported("Test loss", "", nullptr, nullptr, &MetricsPoint::test_loss, true, has_steps);
    reported("Training accuracy", "", &MetricsPoint::accuracy, &ProgressPoint::accuracy, nullptr,
             false, has_steps);
    reported("Test accuracy", "", nullptr, nullptr, &MetricsPoint::test_accuracy, false, has_steps);
  }
  Chart throughput;
  throughput.title = "Throughput";
  throughput.unit = "samples per second, all ranks";
  throughput.begins_at_zero = throughput.x_is_time = true;
  for (std::size_t at = 0; at < reports.size(); ++at) {
    throughput.series.push_back(
        {is_one ? "samples/s" : name_of(*reports[at]), at,
         curve(*reports[at], &MetricsPoint::samples_per_s, &ProgressPoint::samples_per_s, false)});
  }
  if (is_one) throughput.marks = attempt_marks(*reports[0]);
  text += figure_html(throughput);
  const auto sampled = [&](std::string title, std::string unit, ChartUnit y_unit,
                           std::optional<Spread> SamplesPoint::*field) {
    Chart chart;
    chart.title = std::move(title);
    chart.unit = (unit.empty() ? "" : std::move(unit) + "; ") +
                 (is_one ? "mean of the ranks, from the least to the most" : "mean of the ranks");
    chart.y_unit = y_unit;
    chart.begins_at_zero = chart.x_is_time = true;
    for (std::size_t at = 0; at < reports.size(); ++at)
      add_spread(chart, *reports[at], name_of(*reports[at]), at, field, is_one);
    if (is_one) chart.marks = attempt_marks(*reports[0]);
    text += figure_html(chart);
  };
  sampled("Work on a step", "milliseconds", ChartUnit::kPlain, &SamplesPoint::work_ms);
  sampled("Processors", "busy cores", ChartUnit::kPlain, &SamplesPoint::cpu);
  sampled("Memory", "resident", ChartUnit::kBytes, &SamplesPoint::rss_bytes);
  sampled("GPU utilisation", "", ChartUnit::kPercent, &SamplesPoint::gpu);
  sampled("GPU memory", "in use", ChartUnit::kBytes, &SamplesPoint::gpu_used_bytes);
  return text;
}

}  // namespace dlrun
