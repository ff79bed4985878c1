#include "launcher/report/run_charts.h"

#include <optional>

#include <fmt/core.h>

#include "launcher/drawing/chart.h"
#include "launcher/report/page_parts.h"
#include "launcher/report/reported_axis.h"

namespace dlrun {
namespace {

using page::begin_of;

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
    marks.push_back(report.history.attempts()[at].begun - begin_of(report));
  return marks;
}

/// Draws the charts of one run, or of several runs in common charts.
class RunCharts {
 public:
  RunCharts(const std::vector<const RunReport*>& reports, const std::vector<std::string>& names)
      : reports_(reports), names_(names), is_single_run_(reports.size() == 1), axis_(reports) {}

  [[nodiscard]] std::string html() const;

 private:
  /// A chart of a value that a program reports. train: the field of the value on the training
  /// data in metrics.jsonl. progress: the field of the same value in the run's record. test: the
  /// field of the value on the test data in metrics.jsonl. nullptr: there is no such field.
  struct ReportedChart {
    const char* title;
    std::optional<double> MetricsPoint::*train;
    std::optional<double> ProgressPoint::*progress;
    std::optional<double> MetricsPoint::*test;
    bool may_be_logarithmic;
  };

  /// Returns a curve of values that the program reported: from metrics.jsonl, or from the run's
  /// record if metrics.jsonl has none of them. If over_time is true, x is the time since the start;
  /// else axis_ determines x.
  [[nodiscard]] std::vector<ChartPoint> curve(std::size_t at,
                                              std::optional<double> MetricsPoint::*metric,
                                              std::optional<double> ProgressPoint::*progress,
                                              bool over_time) const;
  [[nodiscard]] std::string reported_html(const ReportedChart& shown) const;
  [[nodiscard]] std::string throughput_html() const;
  [[nodiscard]] std::string sampled_html(std::string title, std::string subtitle, ChartUnit y_unit,
                                         std::optional<Spread> SamplesPoint::*field) const;
  [[nodiscard]] std::string power_html() const;

  const std::vector<const RunReport*>& reports_;
  const std::vector<std::string>& names_;  ///< for legends
  bool is_single_run_;
  ReportedAxis axis_;
};

std::vector<ChartPoint> RunCharts::curve(std::size_t at,
                                         std::optional<double> MetricsPoint::*metric,
                                         std::optional<double> ProgressPoint::*progress,
                                         bool over_time) const {
  const RunReport& report = *reports_[at];
  std::vector<ChartPoint> points;
  const double begin = begin_of(report);
  const auto add = [&](const auto& point, const std::optional<double>& value) {
    if (!value) return;
    const double seconds = point.t - begin;
    const auto x =
        over_time ? std::optional(seconds) : axis_.x_of(at, seconds, point.step, point.epoch);
    if (x) points.push_back({*x, *value, point.attempt});
  };
  for (const MetricsPoint& point : report.metrics) add(point, point.*metric);
  if (points.empty() && progress != nullptr) {
    for (const ProgressPoint& point : report.history.progress()) add(point, point.*progress);
  }
  return points;
}

std::string RunCharts::reported_html(const ReportedChart& shown) const {
  Chart chart;
  chart.title = shown.title;
  chart.may_be_logarithmic = shown.may_be_logarithmic;
  chart.x_is_time = axis_.is_time();
  chart.x_unit = axis_.unit();
  for (std::size_t at = 0; at < reports_.size(); ++at) {
    if (shown.train != nullptr)
      chart.series.push_back({is_single_run_ ? "training" : names_[at], at,
                              curve(at, shown.train, shown.progress, axis_.is_time())});
    if (shown.test == nullptr) continue;
    auto points = curve(at, shown.test, nullptr, axis_.is_time());
    if (!points.empty())
      chart.series.push_back(
          {is_single_run_ ? "test" : names_[at], is_single_run_ ? 1 : at, std::move(points), true});
  }
  if (is_single_run_ && axis_.is_time()) chart.marks = attempt_marks(*reports_[0]);
  return figure_html(chart);
}

std::string RunCharts::throughput_html() const {
  Chart chart;
  chart.title = "Throughput";
  chart.subtitle = "samples per second, all ranks";
  chart.y_begins_at_zero = chart.x_is_time = true;
  for (std::size_t at = 0; at < reports_.size(); ++at) {
    chart.series.push_back(
        {is_single_run_ ? "samples/s" : names_[at], at,
         curve(at, &MetricsPoint::samples_per_s, &ProgressPoint::samples_per_s, true)});
  }
  if (is_single_run_) chart.marks = attempt_marks(*reports_[0]);
  return figure_html(chart);
}

std::string RunCharts::sampled_html(std::string title, std::string subtitle, ChartUnit y_unit,
                                    std::optional<Spread> SamplesPoint::*field) const {
  Chart chart;
  chart.title = std::move(title);
  chart.subtitle = (subtitle.empty() ? "" : std::move(subtitle) + "; ") +
                   (is_single_run_ ? "mean of the ranks, and a band from the least to the greatest"
                                   : "mean of the ranks");
  chart.y_unit = y_unit;
  chart.y_begins_at_zero = chart.x_is_time = true;
  for (std::size_t at = 0; at < reports_.size(); ++at)
    add_spread(chart, *reports_[at], names_[at], at, field, is_single_run_);
  if (is_single_run_) chart.marks = attempt_marks(*reports_[0]);
  return figure_html(chart);
}

std::string RunCharts::power_html() const {
  Chart chart;
  chart.title = "GPU power";
  chart.subtitle = "watts, all GPUs";
  chart.y_begins_at_zero = chart.x_is_time = true;
  for (std::size_t at = 0; at < reports_.size(); ++at) {
    ChartSeries series{is_single_run_ ? "GPU power" : names_[at], at, {}};
    for (const SamplesPoint& point : reports_[at]->history.samples()) {
      if (point.gpu_watts)
        series.points.push_back(
            {point.t - begin_of(*reports_[at]), *point.gpu_watts, point.attempt});
    }
    chart.series.push_back(std::move(series));
  }
  if (is_single_run_) chart.marks = attempt_marks(*reports_[0]);
  return figure_html(chart);
}

std::string RunCharts::html() const {
  using Metrics = MetricsPoint;
  using Progress = ProgressPoint;
  std::string text;
  if (is_single_run_) {
    text += reported_html({"Loss", &Metrics::loss, &Progress::loss, &Metrics::test_loss, true});
    text += reported_html(
        {"Accuracy", &Metrics::accuracy, &Progress::accuracy, &Metrics::test_accuracy, false});
  } else {
    text += reported_html({"Training loss", &Metrics::loss, &Progress::loss, nullptr, true});
    text += reported_html({"Test loss", nullptr, nullptr, &Metrics::test_loss, true});
    text += reported_html(
        {"Training accuracy", &Metrics::accuracy, &Progress::accuracy, nullptr, false});
    text += reported_html({"Test accuracy", nullptr, nullptr, &Metrics::test_accuracy, false});
  }
  text += throughput_html();
  text += sampled_html("Work on a step", "milliseconds", ChartUnit::kPlain, &SamplesPoint::work_ms);
  text += sampled_html("Processors", "busy cores", ChartUnit::kPlain, &SamplesPoint::cpu);
  text += sampled_html("Memory", "resident", ChartUnit::kBytes, &SamplesPoint::rss_bytes);
  text += sampled_html("GPU utilisation", "", ChartUnit::kPercent, &SamplesPoint::gpu);
  text += sampled_html("GPU memory", "in use", ChartUnit::kBytes, &SamplesPoint::gpu_used_bytes);
  text += power_html();
  return text;
}

}  // namespace

std::string charts_html(const std::vector<const RunReport*>& reports,
                        const std::vector<std::string>& names) {
  return RunCharts(reports, names).html();
}

}  // namespace dlrun
