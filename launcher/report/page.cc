// The page: HTML around what run_report.h has read. Every word of a run goes through escape_html().

#include <algorithm>
#include <cmath>
#include <ctime>
#include <functional>

#include <fmt/core.h>

#include "common/text.h"
#include "launcher/report/chart.h"
#include "launcher/report/run_report.h"
#include "launcher/report/style.h"

namespace dlrun {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

constexpr std::size_t kEventsShown = 200;
constexpr std::size_t kRanksShown = 32;
constexpr std::size_t kSlowShown = 16;
constexpr std::size_t kPinsShown = 100;

std::string html(std::string_view text) {
  return escape_html(text);
}

std::string duration(double seconds) {
  const auto s = static_cast<std::int64_t>(std::lround(std::clamp(seconds, 0.0, 1e12)));
  if (seconds < 10) return fmt::format("{:.1f} s", std::max(seconds, 0.0));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {} s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{} h {} min", s / 3600, s / 60 % 60);
  return fmt::format("{} d {} h", s / 86400, s / 3600 % 24);
}

std::string utc(double t, bool has_date) {
  const auto whole = static_cast<std::time_t>(t);
  std::tm parts{};
  ::gmtime_r(&whole, &parts);
  const auto time = fmt::format("{:02}:{:02}:{:02}", parts.tm_hour, parts.tm_min, parts.tm_sec);
  if (!has_date) return time;
  return fmt::format("{}-{:02}-{:02} {}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, time);
}

std::string memory(double bytes) {
  static constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1000 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{:.3g} {}", bytes, kUnits[unit]);
}

std::string_view class_of(RunState state) {
  switch (state) {
    case RunState::kCompleted:
      return "good";
    case RunState::kFailed:
    case RunState::kRefused:
    case RunState::kTimeout:
      return "bad";
    default:
      return "warn";
  }
}

std::string state_html(const RunStatus& status) {
  return fmt::format("<span class=\"state {}\">{}{}</span>", class_of(status.state), word(status.state),
                     status.is_last_known ? "?" : "");
}

std::string head(std::string_view title) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
      "<meta name=\"color-scheme\" content=\"light "
      "dark\">\n<title>{}</title>\n<style>{}</style></head>\n<body><main>\n",
      html(title), page_style());
}

std::string foot(const std::string& made) {
  return fmt::format("<footer>made by dlrun {} at {}; times are UTC</footer>\n</main></body></html>\n", DLRUN_VERSION,
                     html(made));
}

std::string tile(std::string_view name, std::string_view value) {
  return value.empty() ? std::string()
                       : fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", html(value), html(name));
}

std::string list_html(const Pairs& pairs) {
  std::string text = "<dl>\n";
  for (const auto& [name, value] : pairs) text += fmt::format("<dt>{}</dt><dd>{}</dd>\n", html(name), html(value));
  return text + "</dl>\n";
}

struct Cell {
  std::string text;
  std::string_view kind;  ///< class of the column: n number, t short text, w text that wraps
};

std::string table_html(const std::vector<Cell>& titles, const std::vector<std::vector<std::string>>& rows) {
  std::string text = "<div class=\"scroll\"><table><thead><tr>";
  for (const Cell& title : titles) text += fmt::format("<th class=\"{}\">{}</th>", title.kind, html(title.text));
  text += "</tr></thead><tbody>\n";
  for (const auto& row : rows) {
    text += "<tr>";
    for (std::size_t at = 0; at < row.size(); ++at)
      text += fmt::format("<td class=\"{}\">{}</td>", titles[at].kind, row[at]);
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>\n";
}

/// When the run began, and its last word.
double begin_of(const RunReport& report) {
  if (!report.history.attempts().empty()) return report.history.attempts().front().claimed;
  return report.metrics.empty() ? 0 : report.metrics.front().t;
}
double end_of(const RunReport& report) {
  double end = begin_of(report);
  const RunHistory& history = report.history;
  if (!history.events().empty()) end = std::max(end, history.events().back().t);
  if (!history.progress().empty()) end = std::max(end, history.progress().back().t);
  if (!history.samples().empty()) end = std::max(end, history.samples().back().t);
  return end;
}

std::string tick_label(double seconds, double whole) {
  if (whole < 180) return fmt::format("{:g} s", seconds);
  if (whole < 3 * 3600) return fmt::format("{:g} min", seconds / 60);
  if (whole < 3 * 86400) return fmt::format("{:g} h", seconds / 3600);
  return fmt::format("{:g} d", seconds / 86400);
}

std::string timeline(const RunReport& report) {
  const auto& attempts = report.history.attempts();
  if (attempts.empty()) return "";
  const double begin = begin_of(report), whole = std::max(end_of(report) - begin, 0.001);
  const auto part = [&](double t) { return 100 * std::clamp((t - begin) / whole, 0.0, 1.0); };
  std::string text = "<h2>Timeline</h2>\n<div class=\"time\">\n";
  for (std::size_t at = 0; at < attempts.size(); ++at) {
    const AttemptHistory& attempt = attempts[at];
    const double until = attempt.ended.value_or(at + 1 < attempts.size() ? attempts[at + 1].claimed : begin + whole);
    const double joined = std::min(attempt.joined.value_or(until), until);
    text += fmt::format("<div class=\"row\"><span class=\"soft name\">attempt {}</span><div class=\"track\">",
                        attempt.number);
    text += fmt::format(
        "<div class=\"span wait\" style=\"left:{:.2f}%;width:{:.2f}%\" title=\"until all ranks had joined: {}\"></div>",
        part(attempt.claimed), part(joined) - part(attempt.claimed), duration(joined - attempt.claimed));
    if (attempt.joined) {
      const std::string_view outcome = !attempt.ended ? "" : attempt.reason == "ok" ? " isgood" : " isbad";
      text += fmt::format("<div class=\"span{}\" style=\"left:{:.2f}%;width:{:.2f}%\" title=\"{}{}\"></div>", outcome,
                          part(joined), part(until) - part(joined), duration(until - joined),
                          attempt.reason.empty() ? "" : ", " + html(attempt.reason));
    }
    std::size_t pins = 0;
    for (const NotedEvent& event : report.history.events()) {
      if (event.attempt != attempt.number || !event.is_bad || ++pins > kPinsShown) continue;
      text += fmt::format("<div class=\"pin bad\" style=\"left:{:.2f}%\" title=\"{}\"></div>", part(event.t),
                          html(event.kind + ": " + event.text));
    }
    text += "</div></div>\n";
  }
  const double unit = whole < 180 ? 1 : whole < 3 * 3600 ? 60 : whole < 3 * 86400 ? 3600 : 86400;
  text += "<div class=\"row\"><span></span><div class=\"scale\">";
  for (const double tick : round_ticks(0, whole / unit, 4)) {
    text += fmt::format("<span style=\"left:{:.2f}%\">{}</span>", std::min(100 * tick * unit / whole, 100.0),
                        tick_label(tick * unit, whole));
  }
  return text + "</div></div>\n</div>\n";
}

std::string events_table(const RunReport& report) {
  const auto& events = report.history.events();
  if (events.empty()) return "";
  const bool has_days = end_of(report) - begin_of(report) > 86400;
  std::vector<std::vector<std::string>> rows;
  const std::size_t first = events.size() > kEventsShown ? events.size() - kEventsShown : 0;
  for (std::size_t at = first; at < events.size(); ++at) {
    const NotedEvent& event = events[at];
    rows.push_back({utc(event.t, has_days), "+" + duration(event.t - begin_of(report)),
                    fmt::format("<span class=\"{}\">{}</span>", event.is_bad ? "bad" : "", html(event.kind)),
                    html(event.text)});
  }
  std::string text = table_html({{"time", "t"}, {"since start", "n"}, {"event", "t"}, {"", "w"}}, rows);
  const std::size_t hidden = first + report.history.events_left_out();
  if (hidden > 0)
    text += fmt::format("<p class=\"soft\">{} earlier events are not shown; events.jsonl has them all.</p>\n", hidden);
  return text;
}

/// A curve of what the program said of itself: metrics.jsonl where there is one, else the run's record.
std::vector<ChartPoint> curve(const RunReport& report, std::optional<double> MetricsPoint::*metric,
                              std::optional<double> ProgressPoint::*progress, bool over_steps) {
  std::vector<ChartPoint> points;
  const double begin = begin_of(report);
  const auto add = [&](double t, const std::optional<std::int64_t>& step, const std::optional<double>& value) {
    if (!value || (over_steps && !step)) return;
    points.push_back({over_steps ? static_cast<double>(*step) : t - begin, *value});
  };
  for (const MetricsPoint& point : report.metrics) add(point.t, point.step, point.*metric);
  if (points.empty() && progress != nullptr) {
    for (const ProgressPoint& point : report.history.progress()) add(point.t, point.step, point.*progress);
  }
  // Steps of an attempt that began again stand where they belong.
  if (over_steps)
    std::stable_sort(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.x < b.x; });
  return points;
}

/// A value over ranks as time goes on: the mean, and a band from the least to the most.
void add_spread(Chart& chart, const RunReport& report, const std::string& name, std::size_t colour,
                std::optional<Spread> SamplesPoint::*field, bool has_band) {
  ChartSeries mean{name, colour, {}};
  ChartBand band{colour, {}, {}};
  for (const SamplesPoint& point : report.history.samples()) {
    const auto& spread = point.*field;
    if (!spread) continue;
    const double x = point.t - begin_of(report);
    mean.points.push_back({x, spread->mean});
    band.least.push_back({x, spread->least});
    band.most.push_back({x, spread->most});
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

/// The charts of one run, or of several over each other.
std::string charts(const std::vector<const RunReport*>& reports) {
  const bool is_one = reports.size() == 1;
  const bool has_steps = std::all_of(reports.begin(), reports.end(), [](const RunReport* report) {
    return std::any_of(report->metrics.begin(), report->metrics.end(),
                       [](const auto& point) { return point.step.has_value(); }) ||
           (report->metrics.empty() && report->history.progress().empty()) ||
           std::any_of(report->history.progress().begin(), report->history.progress().end(),
                       [](const auto& point) { return point.step.has_value(); });
  });
  std::string text;
  const auto reported = [&](std::string title, std::string unit, std::optional<double> MetricsPoint::*train,
                            std::optional<double> ProgressPoint::*progress, std::optional<double> MetricsPoint::*test,
                            bool is_logarithmic, bool over_steps) {
    Chart chart;
    chart.title = std::move(title);
    chart.unit = std::move(unit);
    chart.may_be_logarithmic = is_logarithmic;
    chart.x_is_time = !over_steps;
    for (std::size_t at = 0; at < reports.size(); ++at) {
      if (train != nullptr)
        chart.series.push_back(
            {is_one ? "training" : reports[at]->label, at, curve(*reports[at], train, progress, over_steps)});
      if (test != nullptr) {
        auto points = curve(*reports[at], test, nullptr, over_steps);
        if (!points.empty())
          chart.series.push_back({is_one ? "test" : reports[at]->label, is_one ? 1 : at, std::move(points), true});
      }
    }
    if (is_one && !over_steps) chart.marks = attempt_marks(*reports[0]);
    text += figure_html(chart);
  };
  if (is_one) {
    reported("Loss", "", &MetricsPoint::loss, &ProgressPoint::loss, &MetricsPoint::test_loss, true, has_steps);
    reported("Accuracy", "", &MetricsPoint::accuracy, &ProgressPoint::accuracy, &MetricsPoint::test_accuracy, false,
             has_steps);
  } else {
    reported("Training loss", "", &MetricsPoint::loss, &ProgressPoint::loss, nullptr, true, has_steps);
    reported("Test loss", "", nullptr, nullptr, &MetricsPoint::test_loss, true, has_steps);
    reported("Training accuracy", "", &MetricsPoint::accuracy, &ProgressPoint::accuracy, nullptr, false, has_steps);
    reported("Test accuracy", "", nullptr, nullptr, &MetricsPoint::test_accuracy, false, has_steps);
  }
  Chart throughput;
  throughput.title = "Throughput";
  throughput.unit = "samples per second, all ranks";
  throughput.begins_at_zero = throughput.x_is_time = true;
  for (std::size_t at = 0; at < reports.size(); ++at) {
    throughput.series.push_back(
        {is_one ? "samples/s" : reports[at]->label, at,
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
      add_spread(chart, *reports[at], reports[at]->label, at, field, is_one);
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

std::string slow_ranks(const RunReport& report) {
  const std::size_t samples = report.history.samples().size();
  std::vector<const SlowRank*> slow;
  // Once is chance; what was slow in a tenth of the samples is worth a look.
  for (const auto& [rank, one] : report.history.slow()) {
    if (one.times >= 2 && one.times * 10 >= samples) slow.push_back(&one);
  }
  if (slow.empty()) return "";
  std::sort(slow.begin(), slow.end(), [](const SlowRank* a, const SlowRank* b) { return a->times > b->times; });
  const std::size_t all = slow.size();
  slow.resize(std::min(all, kSlowShown));
  std::vector<std::vector<std::string>> rows;
  for (const SlowRank* one : slow) {
    rows.push_back({std::to_string(one->rank), html(one->host), fmt::format("{} of {}", one->times, samples),
                    one->work_ms > 0 ? fmt::format("{:.4g} ms", one->work_ms) : "",
                    one->lag > 0 ? fmt::format("{} steps", one->lag) : ""});
  }
  return fmt::format(
      "<h2>Ranks that others waited for</h2>\n{}{}",
      table_html(
          {{"rank", "n"}, {"node", "t"}, {"samples", "n"}, {"longest work on a step", "n"}, {"furthest behind", "n"}},
          rows),
      all > slow.size() ? fmt::format("<p class=\"soft\">and {} more</p>\n", all - slow.size()) : "");
}

std::string last_ranks(const RunReport& report) {
  if (!report.ranks || report.ranks->rows.empty()) return "";
  auto sorted = report.ranks->outliers_first();
  const std::size_t all = sorted.size();
  sorted.resize(std::min(all, kRanksShown));
  const auto or_dash = [](const std::optional<double>& value, const std::function<std::string(double)>& show) {
    return value ? show(*value) : std::string("–");
  };
  const auto has = [&](const auto& get) {
    return std::any_of(sorted.begin(), sorted.end(), [&](const RankSample* row) { return get(*row).has_value(); });
  };
  const bool has_gpu = has([](const RankSample& row) { return row.gpu_used_bytes; });
  const bool has_step = has([](const RankSample& row) { return row.step; });
  std::vector<Cell> titles{{"rank", "n"}, {"node", "t"}, {"busy cores", "n"}, {"memory", "n"}};
  if (has_gpu) titles.insert(titles.end(), {{"GPU", "n"}, {"GPU memory", "n"}});
  if (has_step) titles.insert(titles.end(), {{"step", "n"}, {"work on a step", "n"}});
  titles.push_back({"", "w"});
  std::vector<std::vector<std::string>> rows;
  for (const RankSample* row : sorted) {
    std::vector<std::string> cells{std::to_string(row->rank), html(row->node),
                                   or_dash(row->cpu, [](double value) { return fmt::format("{:.2f}", value); }),
                                   or_dash(row->rss_bytes, memory)};
    if (has_gpu) {
      cells.push_back(or_dash(row->gpu_percent, [](double value) { return fmt::format("{:.0f} %", value); }));
      cells.push_back(or_dash(row->gpu_used_bytes, memory));
    }
    if (has_step) {
      cells.push_back(row->step ? std::to_string(*row->step) : "–");
      cells.push_back(or_dash(row->work_ms, [](double value) { return fmt::format("{:.4g} ms", value); }));
    }
    cells.push_back(fmt::format("<span class=\"warn\">{}</span>", word(row->mark)));
    rows.push_back(std::move(cells));
  }
  return fmt::format(
      "<h2>Ranks, as they were last</h2>\n<p class=\"soft\">sampled at {}</p>\n{}{}", html(report.ranks->time),
      table_html(titles, rows),
      all > sorted.size() ? fmt::format("<p class=\"soft\">and {} more ranks</p>\n", all - sorted.size()) : "");
}

std::string folded(std::string_view title, const std::string& text) {
  return text.empty() ? std::string()
                      : fmt::format("<details><summary>{}</summary><pre>{}</pre></details>\n", html(title),
                                    escape_html_lines(text));
}

/// The results in the order of what people look for; a hash is none.
Pairs tiles_of(const Pairs& result) {
  static constexpr std::string_view kFirst[] = {"test_accuracy", "accuracy", "test_loss", "loss", "samples_per_s"};
  Pairs tiles;
  const auto add = [&](const std::pair<std::string, std::string>& one) {
    std::string name = one.first;
    std::replace(name.begin(), name.end(), '_', ' ');
    if (name == "samples per s") name = "samples per second";
    const auto number = parse_double(one.second);
    tiles.emplace_back(std::move(name), number && std::abs(*number) >= 1e4 ? short_number(*number) : one.second);
  };
  for (const auto first : kFirst) {
    for (const auto& one : result) {
      if (one.first == first) add(one);
    }
  }
  for (const auto& one : result) {
    if (one.first != "parameters" && std::find(std::begin(kFirst), std::end(kFirst), one.first) == std::end(kFirst))
      add(one);
  }
  return tiles;
}

std::string value_of(const Pairs& pairs, std::string_view name) {
  const auto found = std::find_if(pairs.begin(), pairs.end(), [&](const auto& pair) { return pair.first == name; });
  return found == pairs.end() ? std::string() : found->second;
}

std::string nodes_of(const RunReport& report) {
  const RunRecord& record = report.status.facts.record;
  return record.hosts.empty() && report.status.facts.report ? report.status.facts.report->nodes : record.hosts;
}

std::string job_text(const RunStatus& status) {
  if (status.job.id.empty()) return "";
  return status.job.cluster == kLocalCluster ? "on this machine, " + status.job.id : "job " + status.job.id;
}

}  // namespace

std::string report_page(const RunReport& report, const std::string& made) {
  const RunRecord& record = report.status.facts.record;
  std::string page = head(report.run.id);
  page += fmt::format("<h1>{} {}</h1>\n<p class=\"soft\">{}</p>\n",
                      html(report.run.name.empty() ? report.run.id : report.run.name), state_html(report.status),
                      html(report.run.id + (report.status.job.id.empty() ? "" : " · " + job_text(report.status))));
  if (!report.status.detail.empty()) {
    const bool is_good = report.status.state == RunState::kCompleted;
    page += fmt::format("<p class=\"{}\">{}</p>\n",
                        is_good                                  ? "soft"
                        : class_of(report.status.state) == "bad" ? "note bad"
                                                                 : "note",
                        html(report.status.detail));
  }
  if (record.first_failed)
    page += fmt::format("<p class=\"note bad\">first to fail: {}</p>\n", html(describe(*record.first_failed)));
  for (const auto& problem : report.problems) page += fmt::format("<p class=\"note\">{}</p>\n", html(problem));

  page += "<div class=\"tiles\">\n";
  for (const auto& [name, value] : tiles_of(report.result)) page += tile(name, value);
  if (report.result.empty() && record.progress) {
    const Progress& progress = *record.progress;
    if (progress.step)
      page += tile("step", progress.steps ? fmt::format("{} / {}", *progress.step, *progress.steps)
                                          : std::to_string(*progress.step));
    if (progress.loss) page += tile("loss", short_number(*progress.loss));
    if (progress.accuracy) page += tile("accuracy", short_number(*progress.accuracy));
    if (progress.samples_per_s) page += tile("samples/s", short_number(*progress.samples_per_s));
  }
  if (record.has_events) page += tile("from start to end", duration(end_of(report) - begin_of(report)));
  if (record.ranks > 0) page += tile("ranks", std::to_string(record.ranks));
  page += tile("nodes", nodes_of(report));
  if (report.history.attempts().size() > 1) page += tile("attempts", std::to_string(report.history.attempts().size()));
  page += "</div>\n";

  page += timeline(report);
  const std::string drawn = charts({&report});
  if (!drawn.empty()) page += "<h2>Over time</h2>\n<div class=\"charts\">\n" + drawn + "</div>\n";
  page += slow_ranks(report);
  page += last_ranks(report);
  if (!report.history.events().empty()) page += "<h2>Events</h2>\n" + events_table(report);

  Pairs facts;
  facts.emplace_back("run directory", report.run.path.string());
  if (!report.run.created.empty()) facts.emplace_back("created", report.run.created);
  if (const auto hash = value_of(report.result, "parameters"); !hash.empty())
    facts.emplace_back("trained parameters", hash);
  facts.insert(facts.end(), report.facts.begin(), report.facts.end());
  page += "<h2>What ran</h2>\n" + list_html(facts);
  page += folded("The effective spec", report.spec) + folded("The script that was submitted", report.script);
  return page + foot(made);
}

std::string comparison_page(const std::vector<RunReport>& reports, const std::string& title, const std::string& made) {
  std::string page = head(title);
  page += fmt::format("<h1>{}</h1>\n<p class=\"soft\">{} runs compared</p>\n", html(title), reports.size());

  // What not all have alike is what they are compared for.
  std::vector<std::string> names;
  for (const RunReport& report : reports) {
    for (const auto& [name, value] : report.keys) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  std::erase_if(names, [&](const std::string& name) {
    const std::string first = value_of(reports.front().keys, name);
    return std::all_of(reports.begin(), reports.end(),
                       [&](const RunReport& report) { return value_of(report.keys, name) == first; });
  });
  std::vector<std::string> results;
  for (const RunReport& report : reports) {
    for (const auto& [name, value] : report.result) {
      if (name != "parameters" && std::find(results.begin(), results.end(), name) == results.end())
        results.push_back(name);
    }
  }
  std::vector<Cell> titles{{"run", "t"}, {"state", "t"}};
  for (const auto& name : names) titles.push_back({name, "t"});
  titles.insert(titles.end(), {{"ranks", "n"}, {"nodes", "t"}, {"took", "n"}});
  for (const auto& name : results) titles.push_back({name, "n"});
  std::vector<std::vector<std::string>> rows;
  const auto is_drawn = [](std::size_t at) { return at < kChartColours; };
  for (std::size_t at = 0; at < reports.size(); ++at) {
    const RunReport& report = reports[at];
    const RunRecord& record = report.status.facts.record;
    std::vector<std::string> cells{
        (is_drawn(at) ? fmt::format("<i class=\"swatch b{}\"></i>", at) : std::string()) + html(report.label),
        fmt::format("<span class=\"{}\">{}</span>", class_of(report.status.state), word(report.status.state))};
    for (const auto& name : names) cells.push_back(html(value_of(report.keys, name)));
    cells.push_back(record.ranks > 0 ? std::to_string(record.ranks) : "");
    cells.push_back(html(nodes_of(report)));
    cells.push_back(record.has_events ? duration(end_of(report) - begin_of(report)) : "");
    for (const auto& name : results) cells.push_back(html(value_of(report.result, name)));
    rows.push_back(std::move(cells));
  }
  page += "<h2>Runs</h2>\n" + table_html(titles, rows);
  for (const RunReport& report : reports) {
    for (const auto& problem : report.problems)
      page += fmt::format("<p class=\"note\">{}: {}</p>\n", html(report.label), html(problem));
    if (report.status.state != RunState::kCompleted && !report.status.detail.empty())
      page += fmt::format("<p class=\"note{}\">{}: {}</p>\n", class_of(report.status.state) == "bad" ? " bad" : "",
                          html(report.label), html(report.status.detail));
  }

  std::vector<const RunReport*> drawn;
  for (std::size_t at = 0; at < reports.size() && is_drawn(at); ++at) drawn.push_back(&reports[at]);
  const std::string curves = charts(drawn);
  if (!curves.empty()) {
    page += "<h2>Over time</h2>\n";
    if (drawn.size() < reports.size())
      page += fmt::format("<p class=\"soft\">the first {} runs of the table</p>\n", drawn.size());
    page += "<div class=\"charts\">\n" + curves + "</div>\n";
  }
  return page + foot(made);
}

}  // namespace dlrun
