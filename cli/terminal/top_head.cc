#include "cli/terminal/top_head.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "cli/terminal/line.h"
#include "cli/terminal/state_style.h"
#include "common/text.h"
#include "common/units.h"
#include "launcher/view/overview_text.h"
#include "launcher/view/run_text.h"

namespace dlrun {
namespace {

constexpr std::size_t kLabelWidth = 12;
constexpr std::size_t kSparkWidth = 40;

/// Builds the lines of the head. The overview must outlive this object.
class HeadLines {
 public:
  HeadLines(const RunOverview& overview, std::size_t columns)
      : overview_(overview),
        status_(overview.status),
        record_(overview.status.facts.record),
        columns_(columns) {}

  /// Returns the lines. Call build() only once, because it moves the lines out of this object.
  std::vector<Text> build();

 private:
  void add_title();
  void add_ranks_and_time();
  void add_detail();
  void add_sweep_bar();
  void add_progress();
  void add_result();
  void add_resources();
  [[nodiscard]] Line line() const { return Line(columns_); }
  [[nodiscard]] Line labelled(std::string_view label) const {
    return line().add(fmt::format(" {:<{}}", label, kLabelWidth), Style::kDim);
  }
  void add_bar(const Progress& progress, double fraction);
  void add_value(std::string_view label, const std::optional<double>& value,
                 std::optional<double> ProgressPoint::*field, std::string_view unit);

  const RunOverview& overview_;
  const RunStatus& status_;
  const RunRecord& record_;
  std::size_t columns_;
  std::vector<Text> lines_;
};

void HeadLines::add_title() {
  Line title = line();
  title.add(" ").add(printable(overview_.run.id), Style::kBold).add("  ");
  title.add(std::string(word(status_.state)) + (status_.may_be_outdated ? "?" : ""),
            style_of(status_.state));
  if (!status_.job.id.empty())
    title.add(status_.job.cluster == kLocalCluster
                  ? std::string("  on this machine")
                  : fmt::format("  job {}", printable(status_.job.id)));
  if (record_.attempt > 0) title.add(fmt::format("  attempt {}", record_.attempt), Style::kYellow);
  lines_.push_back(title.text());
}

void HeadLines::add_ranks_and_time() {
  const std::string text = ranks_and_time_text(overview_);
  if (!text.empty()) lines_.push_back(line().add(" " + text).text());
}

void HeadLines::add_detail() {
  if (is_unreachable(status_))
    lines_.push_back(line()
                         .add(" the controller does not answer; all values are the last known ones",
                              Style::kYellow)
                         .text());
  if (status_.detail.empty()) return;
  const bool is_bad = is_inactive(status_.state) && status_.state != RunState::kCompleted;
  lines_.push_back(
      line().add(" " + printable(status_.detail), is_bad ? Style::kRed : Style::kNone).text());
}

void HeadLines::add_sweep_bar() {
  if (!status_.sweep) return;
  const EndedPoints ended = count_ended_points(*status_.sweep);
  const std::size_t width = std::min<std::size_t>(40, columns_ > 50 ? columns_ - 45 : 10);
  lines_.push_back(
      line().add(" ").add(bar(ended.fraction, width), Style::kGreen).add("  " + ended.text).text());
}

void HeadLines::add_bar(const Progress& progress, double fraction) {
  const std::size_t width = columns_ > 100 ? 40 : columns_ > 64 ? 24 : 10;
  Line text = line();
  text.add(" ")
      .add(bar(fraction, width), Style::kGreen)
      .add(fmt::format(" {:3.0f} %", 100 * fraction));
  text.add(steps_text(progress));
  if (const auto left = time_left_text(overview_, progress); !left.empty())
    text.add(fmt::format("  {} left", left), Style::kBold);
  lines_.push_back(text.text());
}

void HeadLines::add_value(std::string_view label, const std::optional<double>& value,
                          std::optional<double> ProgressPoint::*field, std::string_view unit) {
  if (!value) return;
  Line text = labelled(label);
  text.add(fmt::format("{:<17}", value_text(*value) + std::string(unit)));
  if (!overview_.history.progress().empty() && columns_ > kLabelWidth + 30)
    text.add(sparkline(reported_values(overview_.history, field),
                       std::min(kSparkWidth, columns_ - kLabelWidth - 20)),
             Style::kBlue);
  lines_.push_back(text.text());
}

void HeadLines::add_progress() {
  const auto progress = shown_progress(overview_);
  if (!progress) return;
  if (const auto fraction = fraction_done(*progress)) add_bar(*progress, *fraction);
  add_value("throughput", progress->samples_per_s, &ProgressPoint::samples_per_s, " samples/s");
  add_value("loss", progress->loss, &ProgressPoint::loss, "");
  add_value("accuracy", progress->accuracy, &ProgressPoint::accuracy, "");
}

void HeadLines::add_result() {
  if (record_.result.empty()) return;
  lines_.push_back(labelled("result").add(result_text(record_.result), Style::kBold).text());
}

void HeadLines::add_resources() {
  for (const LabelledLine& resource : resource_lines(overview_))
    lines_.push_back(labelled(resource.label).add(resource.value).text());
}

/// An empty line separates the run from its figures. If there are figures, another empty line
/// separates them from the table.
std::vector<Text> HeadLines::build() {
  add_title();
  add_ranks_and_time();
  add_detail();
  lines_.emplace_back();
  const std::size_t before = lines_.size();
  add_sweep_bar();
  add_progress();
  add_result();
  add_resources();
  if (lines_.size() > before) lines_.emplace_back();
  return std::move(lines_);
}

}  // namespace

std::vector<Text> head_lines(const RunOverview& overview, std::size_t columns) {
  return HeadLines(overview, columns).build();
}

}  // namespace dlrun
