#include "cli/terminal/top_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <functional>
#include <string_view>

#include <nlohmann/json.hpp>

#include "cli/report.h"
#include "cli/terminal/json_or_null.h"
#include "cli/terminal/words.h"
#include "common/text.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLabelWidth = 12;
constexpr std::size_t kEventsShown = 6;
constexpr std::size_t kSparkWidth = 40;
constexpr std::size_t kPlainRanks = 20;

/// Returns the first characters that fit, with "…" for the rest.
std::string cut(std::string_view text, std::size_t columns) {
  if (columns_of(text) <= columns) return std::string(text);
  if (columns == 0) return {};
  std::size_t at = 0;
  for (std::size_t seen = 0; at < text.size(); ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xc0U) != 0x80U && seen++ == columns - 1) break;
  }
  return std::string(text.substr(0, at)) + "…";
}

/// Builds a line of coloured parts and keeps track of the remaining columns.
class Line {
 public:
  explicit Line(std::size_t columns) : left_(columns) {}
  Line& add(std::string_view value, Style style = Style::kNone) {
    if (left_ == 0) return *this;
    const std::string part = cut(printable(value), left_);
    left_ -= std::min(left_, columns_of(part));
    text_.add(styled(style, part));
    return *this;
  }
  Line& pad_to(std::size_t column, std::size_t columns) {
    const std::size_t used = columns - left_;
    return used < column ? add(std::string(column - used, ' ')) : *this;
  }
  [[nodiscard]] const Text& text() const { return text_; }

 private:
  std::size_t left_;
  Text text_;
};

std::string number(double value) {
  if (value >= 1e6) return fmt::format("{:.2f}M", value / 1e6);
  if (value >= 1e4) return fmt::format("{:.1f}k", value / 1e3);
  return fmt::format("{:.4g}", value);
}

std::string clock_text(double t) {
  const auto whole = static_cast<std::time_t>(t);
  std::tm parts{};
  ::localtime_r(&whole, &parts);
  return fmt::format("{:02}:{:02}:{:02}", parts.tm_hour, parts.tm_min, parts.tm_sec);
}

/// Returns the part of the run that is done, from 0 to 1.
std::optional<double> part_done(const Progress& progress) {
  if (progress.step && progress.steps && *progress.steps > 0)
    return std::clamp(static_cast<double>(*progress.step) / static_cast<double>(*progress.steps),
                      0.0, 1.0);
  if (progress.epoch && progress.epochs && *progress.epochs > 0)
    return std::clamp(
        static_cast<double>(*progress.epoch - 1) / static_cast<double>(*progress.epochs), 0.0, 1.0);
  return std::nullopt;
}

/// Returns a bar with a resolution of an eighth of a character.
std::string bar(double part, std::size_t width) {
  constexpr std::array<std::string_view, 8> kEighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = static_cast<std::size_t>(std::lround(part * static_cast<double>(width) * 8));
  std::string text;
  for (std::size_t i = 0; i < eighths / 8; ++i) text += "█";
  text += kEighths[eighths % 8];
  for (std::size_t i = columns_of(text); i < width; ++i) text += "░";
  return text;
}

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

std::string why(const RankSample& row) {
  switch (row.mark) {
    case RankMark::kSilent:
      return fmt::format("silent for {}", duration_text(static_cast<double>(row.age_s)));
    case RankMark::kSlow:
      return row.lag > 0 ? fmt::format("slow: {} step{} behind", row.lag, row.lag == 1 ? "" : "s")
                         : "slow: others wait";
    case RankMark::kIdle:
      return "idle";
    case RankMark::kLarge:
      return "large";
    case RankMark::kNone:
      return "";
  }
  return "";
}

/// The table of ranks. Columns without any value are left out.
class RankTable {
 public:
  RankTable(const RankSnapshot& ranks, std::size_t rows, bool is_live)
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
      if (has_step) cells.push_back(row->step ? std::to_string(*row->step) : "-");
      if (has_work) cells.push_back(row->work_ms ? fmt::format("{:.4g} ms", *row->work_ms) : "-");
      cells.push_back(why(*row));
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
        text += fmt::format(", {} of them stand out, too", marked - rows_.size());
      text += is_live_ ? "; a taller window has room for them, q leaves" : "; --ranks N shows more";
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
  bool is_live_;  ///< on a screen
  std::vector<std::string> titles_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<RankMark> marks_;
  std::vector<std::size_t> widths_;
};

/// Returns the lines above the table: the run, its nodes, its progress and its rate.
std::vector<Text> head_lines(const TopPicture& picture, std::size_t columns) {
  const RunStatus& status = picture.status;
  const RunRecord& record = status.facts.record;
  std::vector<Text> lines;
  const auto line = [&] { return Line(columns); };

  Line title = line();
  title.add(" ").add(printable(picture.run.id), Style::kBold).add("  ");
  title.add(std::string(word(status.state)) + (status.is_last_known ? "?" : ""),
            style_of(status.state));
  if (!status.job.id.empty())
    title.add(status.job.cluster == kLocalCluster
                  ? std::string("  on this machine")
                  : fmt::format("  job {}", printable(status.job.id)));
  if (record.attempt > 0) title.add(fmt::format("  attempt {}", record.attempt), Style::kYellow);
  lines.push_back(title.text());

  std::vector<std::string> place;
  if (record.ranks > 0)
    place.push_back(fmt::format("{} rank{}", record.ranks, record.ranks == 1 ? "" : "s"));
  if (!record.hosts.empty()) place.push_back("on " + printable(record.hosts));
  if (!picture.history.attempts().empty()) {
    const AttemptHistory& attempt = picture.history.attempts().back();
    const auto end = attempt.ended            ? *attempt.ended
                     : is_final(status.state) ? attempt.claimed
                                              : picture.now;
    if (end > attempt.claimed)
      place.push_back(fmt::format("{} {}", attempt.ended ? "took" : "for",
                                  duration_text(end - attempt.claimed)));
  }
  if (!place.empty()) lines.push_back(line().add(" " + join(place, " ")).text());
  if (is_unreachable(status))
    lines.push_back(
        line()
            .add(" the controller does not answer; this is what was known before", Style::kYellow)
            .text());
  if (!status.detail.empty())
    lines.push_back(line()
                        .add(" " + printable(status.detail),
                             is_final(status.state) && status.state != RunState::kCompleted
                                 ? Style::kRed
                                 : Style::kNone)
                        .text());
  lines.emplace_back();

  const std::size_t before = lines.size();
  if (status.sweep) {
    const SweepCounts& counts = *status.sweep;
    const std::size_t over = counts.completed + counts.failed + counts.cancelled;
    const double part =
        counts.points > 0 ? static_cast<double>(over) / static_cast<double>(counts.points) : 0;
    lines.push_back(line()
                        .add(" ")
                        .add(bar(part, std::min<std::size_t>(40, columns > 50 ? columns - 45 : 10)),
                             Style::kGreen)
                        .add(fmt::format("  {} of {} points are over", over, counts.points))
                        .text());
  }
  if (record.progress) {
    Progress progress = *record.progress;
    // The last report was made before the last step.
    if (status.state == RunState::kCompleted) {
      if (progress.steps) progress.step = progress.steps;
      if (progress.epochs) progress.epoch = progress.epochs;
    }
    if (const auto part = part_done(progress)) {
      const std::size_t width = columns > 100 ? 40 : columns > 64 ? 24 : 10;
      Line text = line();
      text.add(" ")
          .add(bar(*part, width), Style::kGreen)
          .add(fmt::format(" {:3.0f} %", 100 * *part));
      if (progress.step)
        text.add(progress.steps ? fmt::format("  step {}/{}", *progress.step, *progress.steps)
                                : fmt::format("  step {}", *progress.step));
      if (progress.epoch)
        text.add(progress.epochs ? fmt::format("  epoch {}/{}", *progress.epoch, *progress.epochs)
                                 : fmt::format("  epoch {}", *progress.epoch));
      if (!is_final(status.state) && progress.steps) {
        if (const auto left = time_left(picture.history, *progress.steps, picture.now))
          text.add(fmt::format("  {} left", duration_text(*left)), Style::kBold);
      }
      lines.push_back(text.text());
    }
    const auto value = [&](std::string_view label, const std::optional<double>& shown,
                           std::optional<double> ProgressPoint::*field, std::string_view unit) {
      if (!shown) return;
      Line text = line();
      text.add(fmt::format(" {:<{}}", label, kLabelWidth), Style::kDim)
          .add(fmt::format("{:<17}", number(*shown) + std::string(unit)));
      if (!picture.history.progress().empty() && columns > kLabelWidth + 30)
        text.add(sparkline(last_values(picture.history, field),
                           std::min(kSparkWidth, columns - kLabelWidth - 20)),
                 Style::kBlue);
      lines.push_back(text.text());
    };
    value("throughput", progress.samples_per_s, &ProgressPoint::samples_per_s, " samples/s");
    value("loss", progress.loss, &ProgressPoint::loss, "");
    value("accuracy", progress.accuracy, &ProgressPoint::accuracy, "");
  }
  if (!record.result.empty())
    lines.push_back(line()
                        .add(fmt::format(" {:<{}}", "result", kLabelWidth), Style::kDim)
                        .add(result_text(record.result), Style::kBold)
                        .text());
  if (!picture.history.samples().empty() &&
      picture.history.samples().back().attempt == record.attempt) {
    const SamplesPoint& point = picture.history.samples().back();
    const auto spread = [&](std::string_view label, const std::optional<Spread>& shown,
                            const std::function<std::string(double)>& show) {
      if (!shown) return;
      lines.push_back(line()
                          .add(fmt::format(" {:<{}}", label, kLabelWidth), Style::kDim)
                          .add(spread_text(*shown, show))
                          .text());
    };
    spread("cores", point.cpu, [](double cores) { return fmt::format("{:.2f}", cores); });
    spread("memory", point.rss_bytes, memory_text);
    spread("GPU", point.gpu, [](double percent) { return fmt::format("{:.0f} %", percent); });
    spread("GPU memory", point.gpu_used_bytes, memory_text);
  }
  if (lines.size() > before) lines.emplace_back();
  return lines;
}

/// Returns the priority of a state when not all points fit: running first, then failed,
/// pending, completed.
int turn_of(RunState state) {
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

/// Returns one line per point, and one line about the hidden points.
std::vector<Text> point_lines(const std::vector<TopPoint>& points, std::size_t most,
                              std::size_t columns) {
  std::vector<const TopPoint*> shown;
  for (const TopPoint& point : points) shown.push_back(&point);
  if (shown.size() > most) {
    std::stable_sort(shown.begin(), shown.end(), [](const TopPoint* a, const TopPoint* b) {
      return turn_of(a->state) < turn_of(b->state);
    });
    shown.resize(most > 0 ? most - 1 : 0);
    std::sort(shown.begin(), shown.end(),
              [](const TopPoint* a, const TopPoint* b) { return a->number < b->number; });
  }
  constexpr std::size_t kStateWidth = 13, kBarWidth = 10;
  const std::size_t number_width = std::to_string(points.size()).size();
  std::size_t values_width = 0;
  for (const TopPoint* point : shown)
    values_width = std::max(values_width, columns_of(printable(point->values)));
  values_width = std::min(values_width, std::max<std::size_t>(columns * 2 / 5, 10));
  std::vector<Text> lines;
  for (const TopPoint* point : shown) {
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

std::vector<Text> event_lines(const TopPicture& picture, std::size_t most, std::size_t columns) {
  const auto& events = picture.history.events();
  std::vector<Text> lines;
  const std::size_t first = events.size() - std::min(most, events.size());
  for (std::size_t at = first; at < events.size(); ++at) {
    const NotedEvent& event = events[at];
    const Style with = event.is_bad ? Style::kRed : Style::kNone;
    Line line(columns);
    line.add(fmt::format(" {}  ", clock_text(event.t)), Style::kDim)
        .add(fmt::format("{:<12}", cut(printable(event.kind), 12)), with)
        .add(" " + printable(event.text), with);
    lines.push_back(line.text());
  }
  return lines;
}

}  // namespace

std::string duration_text(double seconds) {
  const auto s = static_cast<std::int64_t>(std::lround(std::clamp(seconds, 0.0, 1e12)));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {} s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{} h {} min", s / 3600, s / 60 % 60);
  return fmt::format("{} d {} h", s / 86400, s / 3600 % 24);
}

std::string memory_text(double bytes) {
  constexpr std::array<std::string_view, 6> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  while (bytes >= 1000 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return bytes < 10 && unit > 0 ? fmt::format("{:.1f} {}", bytes, kUnits[unit])
                                : fmt::format("{:.0f} {}", bytes, kUnits[unit]);
}

std::string sparkline(const std::vector<double>& values, std::size_t width) {
  constexpr std::array<std::string_view, 8> kHeights{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (values.size() < 2 || width == 0) return "";
  const std::size_t count = std::min(width, values.size());
  std::vector<double> means;
  for (std::size_t at = 0; at < count; ++at) {
    const std::size_t begin = at * values.size() / count, end = (at + 1) * values.size() / count;
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += values[i];
    means.push_back(sum / static_cast<double>(end - begin));
    if (!std::isfinite(means.back())) return "";
  }
  const auto [low, high] = std::minmax_element(means.begin(), means.end());
  std::string text;
  for (const double mean : means) {
    const double part = *high > *low ? (mean - *low) / (*high - *low) : 0;
    text += kHeights[static_cast<std::size_t>(std::lround(part * (kHeights.size() - 1)))];
  }
  return text;
}

std::vector<Text> top_lines(const TopPicture& picture, const TopSize& size) {
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
    RankTable(*picture.ranks,
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

Json top_json(const TopPicture& picture) {
  Json json = status_json(picture.run, picture.status);
  const auto& progress = picture.status.facts.record.progress;
  json["seconds_left"] =
      progress && progress->steps && !is_final(picture.status.state)
          ? value_or_null(time_left(picture.history, *progress->steps, picture.now))
          : Json(nullptr);
  json["sampled"] = picture.ranks ? text_or_null(picture.ranks->time) : Json(nullptr);
  Json ranks = Json::array();
  if (picture.ranks) {
    for (const RankSample* row : picture.ranks->outliers_first()) {
      ranks.push_back({{"rank", row->rank},
                       {"host", text_or_null(row->node)},
                       {"cpu", value_or_null(row->cpu)},
                       {"rss_bytes", value_or_null(row->rss_bytes)},
                       {"gpu_percent", value_or_null(row->gpu_percent)},
                       {"gpu_used_bytes", value_or_null(row->gpu_used_bytes)},
                       {"gpu_total_bytes", value_or_null(row->gpu_total_bytes)},
                       {"step", value_or_null(row->step)},
                       {"work_ms", value_or_null(row->work_ms)},
                       {"lag", row->lag},
                       {"age_s", row->age_s},
                       {"mark", text_or_null(word(row->mark))}});
    }
  }
  json["rank_samples"] = std::move(ranks);
  return json;
}

}  // namespace dlrun
