#include "cli/terminal/top_head.h"

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>

#include "cli/terminal/line.h"
#include "cli/terminal/state_and_cost.h"
#include "common/text.h"
#include "common/units.h"

namespace dlrun {
namespace {

constexpr std::size_t kLabelWidth = 12;
constexpr std::size_t kSparkWidth = 40;

std::vector<double> last_values(const RunHistory& history,
                                std::optional<double> ProgressPoint::*field) {
  std::vector<double> values;
  for (const ProgressPoint& point : history.progress()) {
    if (point.attempt == history.progress().back().attempt && point.*field)
      values.push_back(*(point.*field));
  }
  return values;
}

std::string spread_text(const Spread& spread, const std::function<std::string(double)>& show) {
  const std::string least = show(spread.least), mean = show(spread.mean), most = show(spread.most);
  return least == most ? mean : fmt::format("{} (least {}, most {})", mean, least, most);
}

/// Adds lines to the head. The picture must outlive this object.
class HeadLines {
 public:
  HeadLines(const RunPicture& picture, std::size_t columns)
      : picture_(picture),
        status_(picture.status),
        record_(picture.status.facts.record),
        columns_(columns) {}

  std::vector<Text> take();

 private:
  void add_title();
  void add_place();
  void add_detail();
  void add_points();
  void add_progress();
  void add_result();
  void add_resources();
  [[nodiscard]] Line line() const { return Line(columns_); }
  [[nodiscard]] Line labelled(std::string_view label) const {
    return line().add(fmt::format(" {:<{}}", label, kLabelWidth), Style::kDim);
  }
  void add_bar(const Progress& progress, double part);
  void add_value(std::string_view label, const std::optional<double>& value,
                 std::optional<double> ProgressPoint::*field, std::string_view unit);
  void add_spread(std::string_view label, const std::optional<Spread>& spread,
                  const std::function<std::string(double)>& show);

  const RunPicture& picture_;
  const RunStatus& status_;
  const RunRecord& record_;
  std::size_t columns_;
  std::vector<Text> lines_;
};

void HeadLines::add_title() {
  Line title = line();
  title.add(" ").add(printable(picture_.run.id), Style::kBold).add("  ");
  title.add(std::string(word(status_.state)) + (status_.is_last_known ? "?" : ""),
            style_of(status_.state));
  if (!status_.job.id.empty())
    title.add(status_.job.cluster == kLocalCluster
                  ? std::string("  on this machine")
                  : fmt::format("  job {}", printable(status_.job.id)));
  if (record_.attempt > 0) title.add(fmt::format("  attempt {}", record_.attempt), Style::kYellow);
  lines_.push_back(title.text());
}

void HeadLines::add_place() {
  std::vector<std::string> place;
  if (record_.ranks > 0)
    place.push_back(fmt::format("{} rank{}", record_.ranks, record_.ranks == 1 ? "" : "s"));
  if (!record_.hosts.empty()) place.push_back("on " + printable(record_.hosts));
  if (!picture_.history.attempts().empty()) {
    const AttemptHistory& attempt = picture_.history.attempts().back();
    const auto end = attempt.ended                ? *attempt.ended
                     : is_inactive(status_.state) ? attempt.claimed
                                                  : picture_.now;
    if (end > attempt.claimed)
      place.push_back(fmt::format("{} {}", attempt.ended ? "took" : "for",
                                  duration_text(end - attempt.claimed)));
  }
  if (!place.empty()) lines_.push_back(line().add(" " + join(place, " ")).text());
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

void HeadLines::add_points() {
  if (!status_.sweep) return;
  const SweepCounts& counts = *status_.sweep;
  const std::size_t over = counts.completed + counts.failed + counts.cancelled;
  const double part =
      counts.points > 0 ? static_cast<double>(over) / static_cast<double>(counts.points) : 0;
  const std::size_t width = std::min<std::size_t>(40, columns_ > 50 ? columns_ - 45 : 10);
  lines_.push_back(line()
                       .add(" ")
                       .add(bar(part, width), Style::kGreen)
                       .add(fmt::format("  {} of {} points are over", over, counts.points))
                       .text());
}

void HeadLines::add_bar(const Progress& progress, double part) {
  const std::size_t width = columns_ > 100 ? 40 : columns_ > 64 ? 24 : 10;
  Line text = line();
  text.add(" ").add(bar(part, width), Style::kGreen).add(fmt::format(" {:3.0f} %", 100 * part));
  if (progress.step)
    text.add(progress.steps ? fmt::format("  step {}/{}", *progress.step, *progress.steps)
                            : fmt::format("  step {}", *progress.step));
  if (progress.epoch)
    text.add(progress.epochs ? fmt::format("  epoch {}/{}", *progress.epoch, *progress.epochs)
                             : fmt::format("  epoch {}", *progress.epoch));
  if (!is_inactive(status_.state) && progress.steps) {
    if (const auto left = time_left(picture_.history, *progress.steps, picture_.now))
      text.add(fmt::format("  {} left", duration_text(*left)), Style::kBold);
  }
  lines_.push_back(text.text());
}

void HeadLines::add_value(std::string_view label, const std::optional<double>& value,
                          std::optional<double> ProgressPoint::*field, std::string_view unit) {
  if (!value) return;
  Line text = labelled(label);
  text.add(fmt::format("{:<17}", value_text(*value) + std::string(unit)));
  if (!picture_.history.progress().empty() && columns_ > kLabelWidth + 30)
    text.add(sparkline(last_values(picture_.history, field),
                       std::min(kSparkWidth, columns_ - kLabelWidth - 20)),
             Style::kBlue);
  lines_.push_back(text.text());
}

void HeadLines::add_progress() {
  if (!record_.progress) return;
  Progress progress = *record_.progress;
  if (const auto step = newest_step(picture_)) progress.step = step;
  // A completed run has done all steps, although its last report came before its last step.
  if (status_.state == RunState::kCompleted) {
    if (progress.steps) progress.step = progress.steps;
    if (progress.epochs) progress.epoch = progress.epochs;
  }
  if (const auto part = part_done(progress)) add_bar(progress, *part);
  add_value("throughput", progress.samples_per_s, &ProgressPoint::samples_per_s, " samples/s");
  add_value("loss", progress.loss, &ProgressPoint::loss, "");
  add_value("accuracy", progress.accuracy, &ProgressPoint::accuracy, "");
}

void HeadLines::add_result() {
  if (record_.result.empty()) return;
  lines_.push_back(labelled("result").add(result_text(record_.result), Style::kBold).text());
}

void HeadLines::add_spread(std::string_view label, const std::optional<Spread>& spread,
                           const std::function<std::string(double)>& show) {
  if (spread) lines_.push_back(labelled(label).add(spread_text(*spread, show)).text());
}

void HeadLines::add_resources() {
  const auto& samples = picture_.history.samples();
  if (samples.empty() || samples.back().attempt != record_.attempt) return;
  const SamplesPoint& point = samples.back();
  add_spread("cores", point.cpu, [](double cores) { return fmt::format("{:.2f}", cores); });
  add_spread("memory", point.rss_bytes, memory_text);
  add_spread("GPU", point.gpu, [](double percent) { return fmt::format("{:.0f} %", percent); });
  add_spread("GPU memory", point.gpu_used_bytes, memory_text);
  if (point.gpu_watts)
    lines_.push_back(labelled("GPU power").add(power_text(*point.gpu_watts)).text());
}

/// Returns the lines. An empty line separates the run from its figures, and another one separates
/// the figures from the table.
std::vector<Text> HeadLines::take() {
  add_title();
  add_place();
  add_detail();
  lines_.emplace_back();
  const std::size_t before = lines_.size();
  add_points();
  add_progress();
  add_result();
  add_resources();
  if (lines_.size() > before) lines_.emplace_back();
  return std::move(lines_);
}

}  // namespace

std::vector<Text> head_lines(const RunPicture& picture, std::size_t columns) {
  return HeadLines(picture, columns).take();
}

std::optional<std::int64_t> newest_step(const RunPicture& picture) {
  const RunRecord& record = picture.status.facts.record;
  const auto& reports = picture.history.progress();
  if (reports.empty() || reports.back().attempt != record.attempt || !record.progress ||
      !record.progress->step)
    return std::nullopt;
  std::int64_t step = *record.progress->step;
  if (!picture.ranks || picture.ranks->attempt != record.attempt) return step;
  for (const RankSample& row : picture.ranks->rows) {
    if (row.rank == 0 && row.step) step = std::max(step, *row.step);
  }
  return step;
}

std::optional<double> part_done(const Progress& progress) {
  if (progress.step && progress.steps && *progress.steps > 0)
    return std::clamp(static_cast<double>(*progress.step) / static_cast<double>(*progress.steps),
                      0.0, 1.0);
  if (progress.epoch && progress.epochs && *progress.epochs > 0)
    return std::clamp(
        static_cast<double>(*progress.epoch - 1) / static_cast<double>(*progress.epochs), 0.0, 1.0);
  return std::nullopt;
}

}  // namespace dlrun
