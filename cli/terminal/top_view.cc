#include "cli/terminal/top_view.h"

#include <algorithm>
#include <ctime>
#include <string_view>

#include "cli/terminal/line.h"
#include "cli/terminal/state_and_cost.h"
#include "cli/terminal/top_head.h"
#include "common/text.h"
#include "common/units.h"

namespace dlrun {
namespace {

constexpr std::size_t kEventsShown = 6;
constexpr std::size_t kPlainRanks = 20;  // ranks or points, if TopSize sets no limits

std::string clock_text(double t) {
  const auto whole = static_cast<std::time_t>(t);
  std::tm parts{};
  ::localtime_r(&whole, &parts);
  return fmt::format("{:02}:{:02}:{:02}", parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string of_total(const std::optional<double>& used, const std::optional<double>& total) {
  if (!used) return "";
  return total ? fmt::format("{} / {}", memory_text(*used), memory_text(*total))
               : memory_text(*used);
}

Style style_of_mark(RankMark mark) {
  return mark == RankMark::kSilent ? Style::kRed
         : mark == RankMark::kNone ? Style::kNone
                                   : Style::kYellow;
}

std::string mark_text(const RankSample& row) {
  switch (row.mark) {
    case RankMark::kSilent:
      return fmt::format("silent for {}", duration_text(static_cast<double>(row.age_s)));
    case RankMark::kSlow:
      return row.lag > 0 ? fmt::format("slow: {} step{} behind", row.lag, row.lag == 1 ? "" : "s")
                         : "slow: others wait";
    case RankMark::kIdle:
      return "idle";
    case RankMark::kMuchMemory:
      return "large";
    case RankMark::kNone:
      return "";
  }
  return "";
}

/// The table of ranks. Columns without any value are left out.
class RankTable {
 public:
  /// newest_step: of rank 0.
  RankTable(const RankSnapshot& ranks, const std::optional<std::int64_t>& newest_step,
            std::size_t rows, bool is_live)
      : ranks_(ranks), is_live_(is_live) {
    auto sorted = ranks.outliers_first();
    const std::size_t shown = std::min(rows, sorted.size());
    sorted.resize(shown);
    const auto has = [&](const auto& get) {
      return std::any_of(ranks.rows.begin(), ranks.rows.end(),
                         [&](const RankSample& row) { return get(row).has_value(); });
    };
    titles_ = {"RANK", "NODE"};
    const bool has_gpu = has([](const RankSample& row) { return row.gpu_percent; });
    const bool has_gpu_memory = has([](const RankSample& row) { return row.gpu_used_bytes; });
    const bool has_step = has([](const RankSample& row) { return row.step; });
    const bool has_work = has([](const RankSample& row) { return row.work_ms; });
    titles_.insert(titles_.end(), {"CPU", "MEMORY"});
    if (has_gpu) titles_.emplace_back("GPU");
    if (has_gpu_memory) titles_.emplace_back("GPU MEMORY");
    if (has_step) titles_.emplace_back("STEP");
    if (has_work) titles_.emplace_back("WORK/STEP");
    titles_.emplace_back("");
    for (const RankSample* row : sorted) {
      std::vector<std::string> cells{std::to_string(row->rank), cut(printable(row->node), 20)};
      cells.push_back(row->cpu ? fmt::format("{:.2f}", *row->cpu) : "-");
      cells.push_back(row->rss_bytes ? memory_text(*row->rss_bytes) : "-");
      if (has_gpu)
        cells.push_back(row->gpu_percent ? fmt::format("{:.0f} %", *row->gpu_percent) : "-");
      if (has_gpu_memory)
        cells.push_back(row->gpu_used_bytes ? of_total(row->gpu_used_bytes, row->gpu_total_bytes)
                                            : "-");
      const auto& step = row->rank == 0 && newest_step ? newest_step : row->step;
      if (has_step) cells.push_back(step ? std::to_string(*step) : "-");
      if (has_work) cells.push_back(row->work_ms ? fmt::format("{:.4g} ms", *row->work_ms) : "-");
      cells.push_back(mark_text(*row));
      rows_.push_back(std::move(cells));
      marks_.push_back(row->mark);
    }
    widths_.resize(titles_.size());
    for (std::size_t at = 0; at < titles_.size(); ++at) {
      widths_[at] = columns_of(titles_[at]);
      for (const auto& cells : rows_) widths_[at] = std::max(widths_[at], columns_of(cells[at]));
    }
  }

  void add_to(std::vector<Text>& lines, std::size_t columns) const {
    lines.push_back(line(titles_, columns, Style::kBold));
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      lines.push_back(line(rows_[row], columns, style_of_mark(marks_[row])));
    }
    const std::size_t hidden = ranks_.rows.size() - rows_.size();
    if (hidden > 0) {
      std::size_t marked = 0;
      for (const RankSample& row : ranks_.rows) marked += row.mark != RankMark::kNone ? 1 : 0;
      std::string text = fmt::format("{} more rank{}", hidden, hidden == 1 ? "" : "s");
      if (marked > rows_.size())
        text += fmt::format(", {} of them also stand out", marked - rows_.size());
      text += is_live_ ? "; make the window taller to see more, q quits" : "; --ranks N shows more";
      lines.push_back(Line(columns).add(" " + text, Style::kDim).text());
    }
  }

 private:
  [[nodiscard]] Text line(const std::vector<std::string>& cells, std::size_t columns,
                          Style style) const {
    std::string text = " ";
    for (std::size_t at = 0; at < cells.size(); ++at) {
      const std::string pad(widths_[at] - columns_of(cells[at]), ' ');
      const bool is_text = at == 1 || at + 1 == cells.size();
      text += is_text ? cells[at] + pad : pad + cells[at];
      text += "  ";
    }
    while (text.ends_with(' ')) text.pop_back();
    return Line(columns).add(text, style).text();
  }

  const RankSnapshot& ranks_;
  bool is_live_;  ///< part of the live view
  std::vector<std::string> titles_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<RankMark> marks_;
  std::vector<std::size_t> widths_;
};

/// Returns the place of a state in the order in which points are chosen if not all of them fit:
/// running (0), failed, pending, others, completed.
int display_order(RunState state) {
  switch (state) {
    case RunState::kRunning:
      return 0;
    case RunState::kFailed:
    case RunState::kTimeout:
    case RunState::kRefused:
      return 1;
    case RunState::kPending:
      return 2;
    case RunState::kCompleted:
      return 4;
    default:
      return 3;
  }
}

/// Returns one line per point, at most max(`most`, 1) lines. If not all points fit, the last line
/// gives the number of hidden points.
std::vector<Text> point_lines(const std::vector<PointPicture>& points, std::size_t most,
                              std::size_t columns) {
  std::vector<const PointPicture*> shown;
  for (const PointPicture& point : points) shown.push_back(&point);
  if (shown.size() > most) {
    std::stable_sort(shown.begin(), shown.end(), [](const PointPicture* a, const PointPicture* b) {
      return display_order(a->state) < display_order(b->state);
    });
    shown.resize(most > 0 ? most - 1 : 0);
    std::sort(shown.begin(), shown.end(),
              [](const PointPicture* a, const PointPicture* b) { return a->number < b->number; });
  }
  constexpr std::size_t kStateWidth = 13, kBarWidth = 10;
  const std::size_t number_width = std::to_string(points.size()).size();
  std::size_t values_width = 0;
  for (const PointPicture* point : shown)
    values_width = std::max(values_width, columns_of(printable(point->values)));
  values_width = std::min(values_width, std::max<std::size_t>(columns * 2 / 5, 10));
  std::vector<Text> lines;
  for (const PointPicture* point : shown) {
    Line line(columns);
    line.add(fmt::format(" {:>{}}  ", point->number, number_width), Style::kDim)
        .add(cut(printable(point->values), values_width))
        .pad_to(number_width + values_width + 5, columns)
        .add(std::string(word(point->state)) + (point->is_last_known ? "?" : ""),
             style_of(point->state))
        .pad_to(number_width + values_width + 5 + kStateWidth, columns);
    const auto part = point->progress ? part_done(*point->progress) : std::nullopt;
    if (!point->result.empty()) {
      line.add(result_text(point->result));
    } else if (point->progress) {
      if (part && point->state == RunState::kRunning)
        line.add(bar(*part, kBarWidth), Style::kGreen)
            .add(fmt::format(" {:3.0f} %  ", 100 * *part));
      line.add(progress_text(*point->progress));
    } else {
      line.add(printable(point->detail),
               point->state == RunState::kFailed ? Style::kRed : Style::kNone);
    }
    lines.push_back(line.text());
  }
  if (shown.size() < points.size())
    lines.push_back(Line(columns)
                        .add(fmt::format(" {} more points; dlrun sweep lists them",
                                         points.size() - shown.size()),
                             Style::kDim)
                        .text());
  return lines;
}

std::vector<Text> event_lines(const RunPicture& picture, std::size_t most, std::size_t columns) {
  const auto& events = picture.history.events();
  std::vector<Text> lines;
  const std::size_t first = events.size() - std::min(most, events.size());
  for (std::size_t at = first; at < events.size(); ++at) {
    const ShownEvent& event = events[at];
    const Style style = event.is_bad ? Style::kRed : Style::kNone;
    Line line(columns);
    line.add(fmt::format(" {}  ", clock_text(event.t)), Style::kDim)
        .add(fmt::format("{:<12}", cut(printable(event.kind), 12)), style)
        .add(" " + printable(event.text), style);
    lines.push_back(line.text());
  }
  return lines;
}

}  // namespace

std::vector<Text> top_lines(const RunPicture& picture, const TopSize& size) {
  const std::size_t columns = std::max<std::size_t>(size.columns, 1);
  auto lines = head_lines(picture, columns);
  const bool has_ranks = picture.ranks && !picture.ranks->rows.empty() &&
                         picture.ranks->attempt == picture.status.facts.record.attempt;
  if (picture.points) {
    const std::size_t fit =
        size.rows == 0 ? kPlainRanks : size.rows - std::min(size.rows, lines.size());
    const auto points = point_lines(
        *picture.points, size.ranks > 0 && size.rows == 0 ? size.ranks + 1 : fit, columns);
    lines.insert(lines.end(), points.begin(), points.end());
  }
  const std::size_t room =
      size.rows == 0 ? 1'000'000 : size.rows - std::min(size.rows, lines.size());
  const std::size_t events_room =
      size.rows == 0 ? kEventsShown : std::min(kEventsShown, room / (has_ranks ? 3 : 1));
  const auto events = event_lines(picture, events_room, columns);
  if (has_ranks && room > events.size() + 2) {
    // Reserves three lines: the title, the line about hidden ranks, and an empty line.
    const std::size_t space =
        size.rows == 0 ? kPlainRanks : room - std::min(room, events.size() + 3);
    RankTable(*picture.ranks, newest_step(picture),
              size.ranks > 0 ? std::min(size.ranks, size.rows == 0 ? size.ranks : space) : space,
              size.rows > 0)
        .add_to(lines, columns);
    if (!events.empty()) lines.emplace_back();
  } else if (!has_ranks && picture.status.state == RunState::kRunning && !picture.status.sweep) {
    lines.push_back(Line(columns).add(" no rank has been sampled yet", Style::kDim).text());
  }
  lines.insert(lines.end(), events.begin(), events.end());
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  if (size.rows > 0 && lines.size() > size.rows) lines.resize(size.rows);
  return lines;
}

}  // namespace dlrun
