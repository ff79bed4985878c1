#include "cli/terminal/top_view.h"

#include <algorithm>

#include "cli/terminal/line.h"
#include "cli/terminal/state_style.h"
#include "cli/terminal/top_head.h"
#include "common/text.h"
#include "launcher/view/overview_text.h"
#include "launcher/view/rank_rows.h"
#include "launcher/view/run_text.h"

namespace dlrun {
namespace {

constexpr std::size_t kMostEvents = 6;
/// Number of ranks or points to show if TopSize limits neither the ranks nor the rows.
constexpr std::size_t kDefaultRowCount = 20;

/// The reason why the table hides ranks. The reason decides the hint below the table.
enum class HidingReason {
  kWindow,            ///< the window of the live view is too small
  kOptionOfLiveView,  ///< the live view has the option --ranks
  kOption,            ///< the option --ranks or its default, in output that is printed once
};

std::string_view hint_of(HidingReason reason) {
  switch (reason) {
    case HidingReason::kWindow:
      return "; make the window taller to see more, q quits";
    case HidingReason::kOptionOfLiveView:
      return "; --ranks N shows more, q quits";
    case HidingReason::kOption:
      return "; --ranks N shows more";
  }
  return "";
}

Style style_of_mark(RankMark mark) {
  return mark == RankMark::kSilent ? Style::kRed
         : mark == RankMark::kNone ? Style::kNone
                                   : Style::kYellow;
}

/// Formats the table of ranks as lines.
class RankTable {
 public:
  RankTable(const RankRows& ranks, std::size_t columns) : ranks_(ranks), columns_(columns) {
    for (const std::string& title : ranks.titles) widths_.push_back(columns_of(title));
    for (const RankRow& row : ranks.rows) {
      for (std::size_t at = 0; at < row.cells.size(); ++at)
        widths_[at] = std::max(widths_[at], columns_of(row.cells[at]));
    }
  }

  /// Adds the lines of the table. reason: the reason why ranks are hidden, if some are.
  void add_to(std::vector<Text>& lines, HidingReason reason) const {
    lines.push_back(line(ranks_.titles, Style::kBold));
    for (const RankRow& row : ranks_.rows)
      lines.push_back(line(row.cells, style_of_mark(row.mark)));
    if (ranks_.hidden_count == 0) return;
    std::string text =
        fmt::format("{} more rank{}", ranks_.hidden_count, ranks_.hidden_count == 1 ? "" : "s");
    if (ranks_.hidden_marked_count > 0 && ranks_.hidden_count == 1) {
      text += ", which also stands out";
    } else if (ranks_.hidden_marked_count > 0) {
      text += fmt::format(", {} of them also stand{} out", ranks_.hidden_marked_count,
                          ranks_.hidden_marked_count == 1 ? "s" : "");
    }
    text += hint_of(reason);
    lines.push_back(Line(columns_).add(" " + text, Style::kDim).text());
  }

 private:
  [[nodiscard]] Text line(const std::vector<std::string>& cells, Style style) const {
    std::string text = " ";
    for (std::size_t at = 0; at < cells.size(); ++at) {
      const std::string pad(widths_[at] - columns_of(cells[at]), ' ');
      const bool is_text = at == 1 || at + 1 == cells.size();  // see RankRows
      text += is_text ? cells[at] + pad : pad + cells[at];
      text += "  ";
    }
    while (text.ends_with(' ')) text.pop_back();
    return Line(columns_).add(text, style).text();
  }

  const RankRows& ranks_;
  std::size_t columns_;
  std::vector<std::size_t> widths_;
};

/// Returns one line per point, at most `most_points` points and max(`most_lines`, 1) lines. If not
/// all points fit, the last line gives the number of hidden points.
std::vector<Text> point_lines(const std::vector<PointOverview>& points, std::size_t most_points,
                              std::size_t most_lines, std::size_t columns) {
  const bool all_fit = points.size() <= std::min(most_points, most_lines);
  const std::size_t lines_for_points = most_lines - std::min<std::size_t>(most_lines, 1);
  const auto shown =
      shown_points(points, all_fit ? points.size() : std::min(most_points, lines_for_points));
  constexpr std::size_t kStateWidth = 13, kBarWidth = 10;
  const std::size_t number_width = std::to_string(points.size()).size();
  std::size_t values_width = 0;
  for (const PointOverview* point : shown)
    values_width = std::max(values_width, columns_of(printable(point->values)));
  values_width = std::min(values_width, std::max<std::size_t>(columns * 2 / 5, 10));
  std::vector<Text> lines;
  for (const PointOverview* point : shown) {
    Line line(columns);
    line.add(fmt::format(" {:>{}}  ", point->number, number_width), Style::kDim)
        .add(cut(printable(point->values), values_width))
        .pad_to(number_width + values_width + 5, columns)
        .add(std::string(word(point->state)) + (point->may_be_outdated ? "?" : ""),
             style_of(point->state))
        .pad_to(number_width + values_width + 5 + kStateWidth, columns);
    const auto fraction = point->progress ? fraction_done(*point->progress) : std::nullopt;
    if (!point->result.empty()) {
      line.add(result_text(point->result));
    } else if (point->progress) {
      if (fraction && point->state == RunState::kRunning)
        line.add(bar(*fraction, kBarWidth), Style::kGreen)
            .add(fmt::format(" {:3.0f} %  ", 100 * *fraction));
      line.add(progress_text(*point->progress));
    } else {
      line.add(printable(point->detail),
               point->state == RunState::kFailed ? Style::kRed : Style::kNone);
    }
    lines.push_back(line.text());
  }
  if (const std::size_t hidden = points.size() - shown.size(); hidden > 0)
    lines.push_back(Line(columns)
                        .add(hidden == 1
                                 ? std::string(" 1 more point; dlrun sweep lists it")
                                 : fmt::format(" {} more points; dlrun sweep lists them", hidden),
                             Style::kDim)
                        .text());
  return lines;
}

std::vector<Text> event_lines(const RunOverview& overview, std::size_t most_events,
                              std::size_t columns) {
  const auto& events = overview.history.events();
  std::vector<Text> lines;
  const std::size_t first = events.size() - std::min(most_events, events.size());
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

std::vector<Text> top_lines(const RunOverview& overview, const TopSize& size) {
  const std::size_t columns = std::max<std::size_t>(size.columns, 1);
  auto lines = head_lines(overview, columns);
  const bool has_ranks = overview.ranks && !overview.ranks->rows.empty() &&
                         overview.ranks->attempt == overview.status.facts.record.attempt;
  if (overview.points) {
    const std::size_t points_room =
        size.rows == 0 ? kDefaultRowCount : size.rows - std::min(size.rows, lines.size());
    const std::size_t point_count = overview.points->size();
    const std::size_t most_lines = size.rows == 0 && size.max_ranks > 0 ? point_count : points_room;
    const auto points = point_lines(
        *overview.points, size.max_ranks > 0 ? size.max_ranks : point_count, most_lines, columns);
    lines.insert(lines.end(), points.begin(), points.end());
  }
  const std::size_t room =
      size.rows == 0 ? 1'000'000 : size.rows - std::min(size.rows, lines.size());
  const std::size_t events_room =
      size.rows == 0 ? kMostEvents : std::min(kMostEvents, room / (has_ranks ? 3 : 1));
  const auto events = event_lines(overview, events_room, columns);
  if (has_ranks && room > events.size() + 2) {
    // Reserves three lines: the title, the line about hidden ranks, and an empty line.
    const std::size_t ranks_room =
        size.rows == 0 ? kDefaultRowCount : room - std::min(room, events.size() + 3);
    const std::size_t max_ranks =
        size.max_ranks > 0 ? std::min(size.max_ranks, size.rows == 0 ? size.max_ranks : ranks_room)
                           : ranks_room;
    const RankRows ranks = rank_rows(*overview.ranks, newest_step(overview), max_ranks);
    const bool is_limited_by_option = size.max_ranks > 0 && size.max_ranks < ranks_room;
    RankTable(ranks, columns)
        .add_to(lines, size.rows == 0         ? HidingReason::kOption
                       : is_limited_by_option ? HidingReason::kOptionOfLiveView
                                              : HidingReason::kWindow);
    if (!events.empty()) lines.emplace_back();
  } else if (!has_ranks && overview.status.state == RunState::kRunning && !overview.status.sweep) {
    lines.push_back(Line(columns).add(" no rank has been sampled yet", Style::kDim).text());
  }
  lines.insert(lines.end(), events.begin(), events.end());
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  if (size.rows > 0 && lines.size() > size.rows) lines.resize(size.rows);
  return lines;
}

}  // namespace dlrun
