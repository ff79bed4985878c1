#include "launcher/report/reported_axis.h"

#include <algorithm>

#include "common/text.h"
#include "launcher/report/page_parts.h"
#include "launcher/spec/key_name.h"

namespace dlrun {
namespace {

using Reports = std::vector<const RunReport*>;

/// The largest ratio of two values that count as the same. The step at which an epoch began is
/// known only up to the interval between two reports. So the measured steps per epoch of two runs
/// differ a little even if the true ones are equal.
constexpr double kSameWithin = 1.05;

/// Returns true if a point of the report has the field. Returns true, too, for a report without
/// points: it has no curve, so every axis suits it.
template <typename Has>
bool has_field_or_no_points(const RunReport& report, const Has& has) {
  const auto& metrics = report.metrics;
  const auto& progress = report.history.progress();
  return (metrics.empty() && progress.empty()) ||
         std::any_of(metrics.begin(), metrics.end(), has) ||
         std::any_of(progress.begin(), progress.end(), has);
}

bool all_have_steps(const Reports& reports) {
  return std::all_of(reports.begin(), reports.end(), [](const RunReport* report) {
    return has_field_or_no_points(*report,
                                  [](const auto& point) { return point.step.has_value(); });
  });
}

bool all_have_epochs(const Reports& reports) {
  return std::all_of(reports.begin(), reports.end(), [](const RunReport* report) {
    return has_field_or_no_points(*report,
                                  [](const auto& point) { return point.epoch.has_value(); });
  });
}

/// Returns the value of each report. Returns nullopt if a value is unknown or not positive, if all
/// values are the same within kSameWithin, or if there is only one report.
template <typename Value>
std::optional<std::vector<double>> values_if_different(const Reports& reports, const Value& value) {
  std::vector<double> values;
  for (const RunReport* report : reports) {
    const auto one = value(*report);
    if (!one || *one <= 0) return std::nullopt;
    values.push_back(*one);
  }
  if (values.size() < 2) return std::nullopt;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return *most > *least * kSameWithin ? std::optional(values) : std::nullopt;
}

/// Returns the mean number of steps per epoch, measured from the first point of the first epoch to
/// the first point of the last epoch. Returns nullopt if only one epoch has points.
template <typename Point>
std::optional<double> measured_steps_per_epoch(const std::vector<Point>& points) {
  const Point* first = nullptr;
  const Point* last = nullptr;
  for (const Point& point : points) {
    if (!point.step || !point.epoch) continue;
    if (first == nullptr) first = &point;
    if (last == nullptr || *point.epoch > *last->epoch) last = &point;
  }
  if (first == nullptr || *last->epoch <= *first->epoch || *last->step <= *first->step)
    return std::nullopt;
  return static_cast<double>(*last->step - *first->step) /
         static_cast<double>(*last->epoch - *first->epoch);
}

}  // namespace

std::optional<double> steps_per_epoch(const RunReport& report) {
  const auto& progress = report.status.facts.record.progress;
  if (progress && progress->steps && progress->epochs && *progress->steps > 0 &&
      *progress->epochs > 0)
    return static_cast<double>(*progress->steps) / static_cast<double>(*progress->epochs);
  const auto measured = measured_steps_per_epoch(report.metrics);
  return measured ? measured : measured_steps_per_epoch(report.history.progress());
}

std::optional<double> samples_per_step(const RunReport& report) {
  const auto batch = parse_double(page::value_of(report.keys, "train.batch"_key));
  const auto ranks = report.status.facts.record.ranks;
  return batch && ranks > 0 ? std::optional(*batch * static_cast<double>(ranks)) : std::nullopt;
}

ReportedAxis::ReportedAxis(const Reports& reports) : per_step_(reports.size(), 1) {
  if (!all_have_steps(reports)) {
    kind_ = all_have_epochs(reports) ? Kind::kReportedEpochs : Kind::kTime;
    return;
  }
  if (const auto steps = values_if_different(reports, steps_per_epoch)) {
    kind_ = Kind::kEpochsOfSteps;
    std::transform(steps->begin(), steps->end(), per_step_.begin(),
                   [](double per_epoch) { return 1 / per_epoch; });
  } else if (auto samples = values_if_different(reports, samples_per_step)) {
    kind_ = Kind::kSamples;
    per_step_ = std::move(*samples);
  }
}

std::string ReportedAxis::unit() const {
  switch (kind_) {
    case Kind::kTime:
      return "";
    case Kind::kSteps:
      return "steps";
    case Kind::kEpochsOfSteps:
    case Kind::kReportedEpochs:
      return "epochs";
    case Kind::kSamples:
      return "samples";
  }
  return "";
}

std::optional<double> ReportedAxis::x_of(std::size_t report_index, double seconds,
                                         const std::optional<std::int64_t>& step,
                                         const std::optional<std::int64_t>& epoch) const {
  if (kind_ == Kind::kTime) return seconds;
  if (kind_ == Kind::kReportedEpochs)
    return epoch ? std::optional(static_cast<double>(*epoch)) : std::nullopt;
  if (!step) return std::nullopt;
  return static_cast<double>(*step) * per_step_[report_index];
}

}  // namespace dlrun
