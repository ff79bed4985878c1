#include "launcher/report/run_charts.h"

#include <algorithm>
#include <optional>

#include <fmt/core.h>

#include "launcher/drawing/chart.h"
#include "launcher/report/page_parts.h"

namespace dlrun {
namespace {

using page::begin_of;

/// Returns the run's name for a legend: for a point of a sweep, the short one.
const std::string& name_of(const RunReport& report) {
  return report.short_label.empty() ? report.label : report.short_label;
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

/// Draws the charts of one run, or of several runs in common charts.
class RunCharts {
 public:
  explicit RunCharts(const std::vector<const RunReport*>& reports)
      : reports_(reports),
        is_one_(reports.size() == 1),
        has_steps_(std::all_of(reports.begin(), reports.end(), over_steps)) {}

  [[nodiscard]] std::string html() const;

 private:
  /// A value that a program reports: in metrics.jsonl, in the run's record, and on the test data.
  /// nullptr: the value does not exist there.
  struct Reported {
    const char* title;
    std::optional<double> MetricsPoint::*train;
    std::optional<double> ProgressPoint::*progress;
    std::optional<double> MetricsPoint::*test;
    bool may_be_logarithmic;
  };

  /// Returns true if the values can be drawn over steps.
  [[nodiscard]] static bool over_steps(const RunReport* report);
  [[nodiscard]] std::string reported(const Reported& what) const;
  [[nodiscard]] std::string throughput() const;
  [[nodiscard]] std::string sampled(std::string title, std::string unit, ChartUnit y_unit,
                                    std::optional<Spread> SamplesPoint::*field) const;

  const std::vector<const RunReport*>& reports_;
  bool is_one_, has_steps_;
};

bool RunCharts::over_steps(const RunReport* report) {
  const auto has_step = [](const auto& point) { return point.step.has_value(); };
  const auto& metrics = report->metrics;
  const auto& progress = report->history.progress();
  return std::any_of(metrics.begin(), metrics.end(), has_step) ||
         (metrics.empty() && progress.empty()) ||
         std::any_of(progress.begin(), progress.end(), has_step);
}

std::string RunCharts::reported(const Reported& what) const {
  Chart chart;
  chart.title = what.title;
  chart.may_be_logarithmic = what.may_be_logarithmic;
  chart.x_is_time = !has_steps_;
  for (std::size_t at = 0; at < reports_.size(); ++at) {
    const RunReport& report = *reports_[at];
    if (what.train != nullptr)
      chart.series.push_back({is_one_ ? "training" : name_of(report), at,
                              curve(report, what.train, what.progress, has_steps_)});
    if (what.test == nullptr) continue;
    auto points = curve(report, what.test, nullptr, has_steps_);
    if (!points.empty())
      chart.series.push_back(
          {is_one_ ? "test" : name_of(report), is_one_ ? 1 : at, std::move(points), true});
  }
  if (is_one_ && !has_steps_) chart.marks = attempt_marks(*reports_[0]);
  return figure_html(chart);
}

std::string RunCharts::throughput() const {
  Chart chart;
  chart.title = "Throughput";
  chart.unit = "samples per second, all ranks";
  chart.begins_at_zero = chart.x_is_time = true;
  for (std::size_t at = 0; at < reports_.size(); ++at) {
    chart.series.push_back(
        {is_one_ ? "samples/s" : name_of(*reports_[at]), at,
         curve(*reports_[at], &MetricsPoint::samples_per_s, &ProgressPoint::samples_per_s, false)});
  }
  if (is_one_) chart.marks = attempt_marks(*reports_[0]);
  return figure_html(chart);
}

std::string RunCharts::sampled(std::string title, std::string unit, ChartUnit y_unit,
                               std::optional<Spread> SamplesPoint::*field) const {
  Chart chart;
  chart.title = std::move(title);
  chart.unit = (unit.empty() ? "" : std::move(unit) + "; ") +
               (is_one_ ? "mean of the ranks, from the least to the most" : "mean of the ranks");
  chart.y_unit = y_unit;
  chart.begins_at_zero = chart.x_is_time = true;
  for (std::size_t at = 0; at < reports_.size(); ++at)
    add_spread(chart, *reports_[at], name_of(*reports_[at]), at, field, is_one_);
  if (is_one_) chart.marks = attempt_marks(*reports_[0]);
  return figure_html(chart);
}

std::string RunCharts::html() const {
  using Metrics = MetricsPoint;
  using Progress = ProgressPoint;
  std::string text;
  if (is_one_) {
    text += reported({"Loss", &Metrics::loss, &Progress::loss, &Metrics::test_loss, true});
    text += reported(
        {"Accuracy", &Metrics::accuracy, &Progress::accuracy, &Metrics::test_accuracy, false});
  } else {
    text += reported({"Training loss", &Metrics::loss, &Progress::loss, nullptr, true});
    text += reported({"Test loss", nullptr, nullptr, &Metrics::test_loss, true});
    text +=
        reported({"Training accuracy", &Metrics::accuracy, &Progress::accuracy, nullptr, false});
    text += reported({"Test accuracy", nullptr, nullptr, &Metrics::test_accuracy, false});
  }
  text += throughput();
  text += sampled("Work on a step", "milliseconds", ChartUnit::kPlain, &SamplesPoint::work_ms);
  text += sampled("Processors", "busy cores", ChartUnit::kPlain, &SamplesPoint::cpu);
  text += sampled("Memory", "resident", ChartUnit::kBytes, &SamplesPoint::rss_bytes);
  text += sampled("GPU utilisation", "", ChartUnit::kPercent, &SamplesPoint::gpu);
  text += sampled("GPU memory", "in use", ChartUnit::kBytes, &SamplesPoint::gpu_used_bytes);
  return text;
}

}  // namespace

std::string charts_html(const std::vector<const RunReport*>& reports) {
  return RunCharts(reports).html();
}

}  // namespace dlrun
