// The page of one run. All text from a run passes through escape_html().

#include <algorithm>
#include <ctime>
#include <functional>

#include <fmt/core.h>

#include "common/text.h"
#include "common/units.h"
#include "launcher/drawing/chart.h"
#include "launcher/drawing/escape.h"
#include "launcher/report/page_parts.h"
#include "launcher/report/run_charts.h"
#include "launcher/report/run_report.h"
#include "launcher/view/run_text.h"

namespace dlrun {
namespace {

using namespace page;

constexpr std::size_t kEventsShown = 200;
constexpr std::size_t kRanksShown = 32;
constexpr std::size_t kSlowRanksShown = 16;
constexpr std::size_t kEventPinsShown = 100;  // marks of bad events in one attempt's row

std::string utc_text(double t, bool has_date) {
  const auto whole = static_cast<std::time_t>(t);
  std::tm parts{};
  ::gmtime_r(&whole, &parts);
  const auto time = fmt::format("{:02}:{:02}:{:02}", parts.tm_hour, parts.tm_min, parts.tm_sec);
  if (!has_date) return time;
  return fmt::format("{}-{:02}-{:02} {}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     time);
}

std::string state_html(const RunStatus& status) {
  return fmt::format("<span class=\"state {}\">{}{}</span>", css_class_of(status.state),
                     word(status.state), status.may_be_outdated ? "?" : "");
}

std::string tick_label(double seconds, double length) {
  if (length < 180) return fmt::format("{:g} s", seconds);
  if (length < 3 * 3600) return fmt::format("{:g} min", seconds / 60);
  if (length < 3 * 86400) return fmt::format("{:g} h", seconds / 3600);
  return fmt::format("{:g} d", seconds / 86400);
}

/// The legend of the timeline. It lists only the colours that the timeline uses.
struct Legend {
  bool has_wait = false, has_good = false, has_queued_again = false, has_bad = false,
       has_unended = false, has_pins = false;

  [[nodiscard]] std::string html() const {
    std::string keys;
    const auto add = [&](bool has, std::string_view look, std::string_view words) {
      if (has)
        keys += fmt::format("<span class=\"key\"><i class=\"{}\"></i>{}</span>", look, words);
    };
    add(has_wait, "box wait", "waiting for all ranks to join");
    add(has_unended, "box", "still running, or no end is recorded");
    add(has_good, "box isgood", "ended well");
    add(has_queued_again, "box isagain",
        "queued again as planned: time limit, preemption or requeue");
    add(has_bad, "box isbad", "ended with an error");
    add(has_pins, "bar", "a warning, a signal or a failure");
    return fmt::format("<p class=\"keys\">{}</p>\n", keys);
  }
};

/// Returns the labels below the timeline of a run that lasted `length` seconds.
std::string time_scale_html(double length) {
  const double unit = length < 180 ? 1 : length < 3 * 3600 ? 60 : length < 3 * 86400 ? 3600 : 86400;
  std::string text = "<div class=\"row\"><span></span><div class=\"scale\">";
  for (const double tick : round_ticks(0, length / unit, 4)) {
    text +=
        fmt::format("<span style=\"left:{:.2f}%\">{}</span>",
                    std::min(100 * tick * unit / length, 100.0), tick_label(tick * unit, length));
  }
  return text + "</div></div>\n";
}

std::string timeline_html(const RunReport& report) {
  const auto& attempts = report.history.attempts();
  if (attempts.empty()) return "";
  const double begin = begin_of(report), length = std::max(end_of(report) - begin, 0.001);
  const auto percent_at = [&](double t) {
    return 100 * std::clamp((t - begin) / length, 0.0, 1.0);
  };
  Legend legend;
  std::string text = "<div class=\"time\">\n";
  for (std::size_t at = 0; at < attempts.size(); ++at) {
    const AttemptHistory& attempt = attempts[at];
    const double until =
        attempt.ended.value_or(at + 1 < attempts.size() ? attempts[at + 1].begun : begin + length);
    const double joined = std::min(attempt.joined.value_or(until), until);
    text += fmt::format(
        "<div class=\"row\"><span class=\"soft name\">attempt {}</span><div class=\"track\">",
        attempt.number);
    text += fmt::format(
        "<div class=\"span wait\" style=\"left:{:.2f}%;width:{:.2f}%\" title=\"waiting for all "
        "ranks to "
        "join: {}\"></div>",
        percent_at(attempt.begun), percent_at(joined) - percent_at(attempt.begun),
        fine_duration_text(joined - attempt.begun));
    legend.has_wait = true;
    if (attempt.joined) {
      const bool is_queued_again = attempt.ended && attempt.has_planned_end();
      const bool is_good =
          attempt.ended && !is_queued_again &&
          (attempt.reason == EndReason::kOk || attempt.reason == EndReason::kStoppedEarly ||
           attempt.reason == EndReason::kRehearsed);
      const bool is_bad = attempt.ended && !is_queued_again && !is_good;
      legend.has_queued_again = legend.has_queued_again || is_queued_again;
      legend.has_good = legend.has_good || is_good;
      legend.has_bad = legend.has_bad || is_bad;
      legend.has_unended = legend.has_unended || !attempt.ended;
      text += fmt::format(
          "<div class=\"span{}\" style=\"left:{:.2f}%;width:{:.2f}%\" title=\"{}{}\"></div>",
          is_queued_again ? " isagain"
          : is_good       ? " isgood"
          : is_bad        ? " isbad"
                          : "",
          percent_at(joined), percent_at(until) - percent_at(joined),
          fine_duration_text(until - joined),
          attempt.reason.empty() ? "" : ", " + escape_html(attempt.reason.text()));
    }
    std::size_t pin_count = 0;
    for (const ShownEvent& event : report.history.events()) {
      if (event.attempt != attempt.number || !event.is_bad || ++pin_count > kEventPinsShown)
        continue;
      legend.has_pins = true;
      text += fmt::format("<div class=\"pin bad\" style=\"left:{:.2f}%\" title=\"{}\"></div>",
                          percent_at(event.t), escape_html(event.kind + ": " + event.text));
    }
    text += "</div></div>\n";
  }
  return "<h2>Timeline</h2>\n" + legend.html() + text + time_scale_html(length) + "</div>\n";
}

std::string events_table_html(const RunReport& report) {
  const auto& events = report.history.events();
  if (events.empty()) return "";
  const bool has_days = end_of(report) - begin_of(report) > 86400;
  std::vector<std::vector<std::string>> rows;
  const std::size_t first = events.size() > kEventsShown ? events.size() - kEventsShown : 0;
  for (std::size_t at = first; at < events.size(); ++at) {
    const ShownEvent& event = events[at];
    rows.push_back({utc_text(event.t, has_days),
                    "+" + fine_duration_text(event.t - begin_of(report)),
                    fmt::format("<span class=\"{}\">{}</span>", event.is_bad ? "bad" : "",
                                escape_html(event.kind)),
                    escape_html(event.text)});
  }
  std::string text =
      table_html({{"time", "t"}, {"since start", "n"}, {"event", "t"}, {"", "w"}}, rows);
  const std::size_t hidden = first + report.history.events_left_out();
  if (hidden > 0)
    text += fmt::format(
        "<p class=\"soft\">{} earlier events are not shown; events.jsonl has them all.</p>\n",
        hidden);
  return text;
}

std::string slow_ranks_html(const RunReport& report) {
  const std::size_t sample_count = report.history.samples().size();
  std::vector<const SlowRank*> slow;
  // Leaves out a rank that was slow in only one sample, or in less than a tenth of the samples,
  // because that may be chance.
  for (const auto& [rank, one] : report.history.slow_ranks()) {
    if (one.slow_count >= 2 && one.slow_count * 10 >= sample_count) slow.push_back(&one);
  }
  if (slow.empty()) return "";
  std::sort(slow.begin(), slow.end(),
            [](const SlowRank* a, const SlowRank* b) { return a->slow_count > b->slow_count; });
  const std::size_t all = slow.size();
  slow.resize(std::min(all, kSlowRanksShown));
  std::vector<std::vector<std::string>> rows;
  for (const SlowRank* one : slow) {
    rows.push_back({std::to_string(one->rank), escape_html(one->host),
                    fmt::format("{} of {}", one->slow_count, sample_count),
                    one->work_ms > 0 ? fmt::format("{:.4g} ms", one->work_ms) : "",
                    one->lag > 0 ? fmt::format("{} steps", one->lag) : ""});
  }
  return fmt::format("<h2>Ranks that others waited for</h2>\n{}{}",
                     table_html({{"rank", "n"},
                                 {"node", "t"},
                                 {"samples", "n"},
                                 {"longest work on a step", "n"},
                                 {"furthest behind", "n"}},
                                rows),
                     all > slow.size()
                         ? fmt::format("<p class=\"soft\">and {} more</p>\n", all - slow.size())
                         : "");
}

std::string ranks_at_last_sample_html(const RunReport& report) {
  if (!report.ranks || report.ranks->rows.empty()) return "";
  auto sorted = report.ranks->outliers_first();
  const std::size_t all = sorted.size();
  sorted.resize(std::min(all, kRanksShown));
  const auto or_dash = [](const std::optional<double>& value,
                          const std::function<std::string(double)>& show) {
    return value ? show(*value) : std::string("–");
  };
  const auto has = [&](const auto& get) {
    return std::any_of(sorted.begin(), sorted.end(),
                       [&](const RankSample* row) { return get(*row).has_value(); });
  };
  const bool has_gpu = has([](const RankSample& row) { return row.gpu_used_bytes; });
  const bool has_step = has([](const RankSample& row) { return row.step; });
  std::vector<Column> titles{{"rank", "n"}, {"node", "t"}, {"busy cores", "n"}, {"memory", "n"}};
  if (has_gpu) titles.insert(titles.end(), {{"GPU", "n"}, {"GPU memory", "n"}});
  if (has_step) titles.insert(titles.end(), {{"step", "n"}, {"work on a step", "n"}});
  titles.push_back({"", "w"});
  std::vector<std::vector<std::string>> rows;
  for (const RankSample* row : sorted) {
    std::vector<std::string> cells{std::to_string(row->rank), escape_html(row->node),
                                   or_dash(row->cpu, cores_text),
                                   or_dash(row->rss_bytes, fine_memory_text)};
    if (has_gpu) {
      cells.push_back(or_dash(row->gpu_percent, whole_percent_text));
      cells.push_back(or_dash(row->gpu_used_bytes, fine_memory_text));
    }
    if (has_step) {
      cells.push_back(row->step ? std::to_string(*row->step) : "–");
      cells.push_back(
          or_dash(row->work_ms, [](double value) { return fmt::format("{:.4g} ms", value); }));
    }
    cells.push_back(fmt::format("<span class=\"warn\">{}</span>", word(row->mark)));
    rows.push_back(std::move(cells));
  }
  return fmt::format("<h2>Ranks at the last sample</h2>\n<p class=\"soft\">sampled at {}</p>\n{}{}",
                     escape_html(report.ranks->time), table_html(titles, rows),
                     all > sorted.size() ? fmt::format("<p class=\"soft\">and {} more ranks</p>\n",
                                                       all - sorted.size())
                                         : "");
}

/// Returns the part above the tiles: the state and its reason, and problems of the files.
std::string introduction_html(const RunReport& report) {
  std::string page;
  page += fmt::format(
      "<h1>{} {}</h1>\n<p class=\"soft\">{}</p>\n",
      escape_html(report.run.name.empty() ? report.run.id : report.run.name),
      state_html(report.status),
      escape_html(report.run.id +
                  (report.status.job.id.empty() ? "" : " · " + job_text(report.status.job))));
  if (!report.status.detail.empty()) {
    const bool is_good = report.status.state == RunState::kCompleted;
    page += fmt::format("<p class=\"{}\">{}</p>\n",
                        is_good                                      ? "soft"
                        : css_class_of(report.status.state) == "bad" ? "note bad"
                                                                     : "note",
                        escape_html(report.status.detail));
  }
  const RankFailure* const failed = failure_behind_end(report.status);
  if (failed != nullptr && !report.status.detail_shows_failed_rank)
    page += fmt::format("<p class=\"note bad\">first to fail: {}</p>\n",
                        escape_html(describe(*failed)));
  page += last_words_html(report);
  for (const auto& problem : report.problems)
    page += fmt::format("<p class=\"note\">{}</p>\n", escape_html(problem));
  return page;
}

/// Returns the tiles of the progress of a run without a result.
std::string progress_tiles_html(const Progress& progress) {
  std::string page;
  if (progress.epoch)
    page += tile_html("epoch", progress.epochs
                                   ? fmt::format("{} / {}", *progress.epoch, *progress.epochs)
                                   : std::to_string(*progress.epoch));
  if (progress.step)
    page +=
        tile_html("step", progress.steps ? fmt::format("{} / {}", *progress.step, *progress.steps)
                                         : std::to_string(*progress.step));
  if (progress.loss) page += tile_html("training loss", short_value_text(*progress.loss));
  if (progress.accuracy)
    page += tile_html("training accuracy", short_value_text(*progress.accuracy));
  if (progress.samples_per_s)
    page += tile_html("samples per second", short_value_text(*progress.samples_per_s));
  return page;
}

/// Returns the tiles of the cost of all attempts together.
std::string cost_tiles_html(const RunReport& report) {
  const RunUse& use = report.use;
  const bool has_several_attempts = report.history.attempts().size() > 1;
  const auto name = [&](const char* what) {
    return has_several_attempts ? fmt::format("{}, all attempts", what) : std::string(what);
  };
  std::string page;
  if (use.gpu_hours) {
    page += tile_html(name("GPU-hours"), measurement_text(*use.gpu_hours));
  } else if (use.core_hours) {
    page += tile_html(name("core-hours"), measurement_text(*use.core_hours));
  }
  if (use.gpu_joules) page += tile_html("energy of the GPUs", energy_text(*use.gpu_joules));
  if (report.slurm_joules)
    page += tile_html("energy, according to Slurm", energy_text(*report.slurm_joules));
  return page;
}

std::string tiles_html(const RunReport& report) {
  const RunRecord& record = report.status.facts.record;
  std::string page = "<div class=\"tiles\">\n";
  for (const auto& name : names_of_results(report.result))
    page += tile_html(readable_name(name), readable_value(name, value_of(report.result, name)));
  if (report.result.empty() && record.progress) page += progress_tiles_html(*record.progress);
  if (record.has_events)
    page += tile_html(
        is_inactive(report.status.state) ? "from start to end" : "from start to the last event",
        fine_duration_text(end_of(report) - begin_of(report)));
  if (record.ranks > 0) page += tile_html("ranks", std::to_string(record.ranks));
  page += tile_html("nodes", nodes_of(report));
  if (report.history.attempts().size() > 1)
    page += tile_html("attempts", std::to_string(report.history.attempts().size()));
  return page + cost_tiles_html(report) + "</div>\n";
}

/// Returns a table of the requested and the used resources, with suggestions for the next spec.
std::string use_table_html(const RunReport& report) {
  if (!report.requested || report.use.rows.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (const ResourceRow& row : report.use.rows) {
    rows.push_back({escape_html(row.resource),
                    row.requested.empty() ? "–" : escape_html(row.requested), escape_html(row.used),
                    escape_html(row.advice)});
  }
  return "<h2>Requested and used</h2>\n" +
         table_html({{"", "t"}, {"requested", "n"}, {"used", "n"}, {"suggestion", "w"}}, rows);
}

/// Returns the origin of a run: its facts, its spec and its script.
std::string origin_html(const RunReport& report) {
  Pairs facts;
  facts.emplace_back("run directory", report.run.path.string());
  if (!report.run.created.empty()) facts.emplace_back("created", report.run.created);
  if (const auto hash = value_of(report.result, "parameters"); !hash.empty())
    facts.emplace_back("hash of the trained parameters", hash);
  facts.insert(facts.end(), report.background.begin(), report.background.end());
  return "<h2>What ran</h2>\n" + list_html(facts) + folded_html("The effective spec", report.spec) +
         folded_html("The script that was submitted", report.script);
}

}  // namespace

std::string report_page(const RunReport& report, const std::string& made_at) {
  std::string page = head_html(report.run.id) + introduction_html(report) + tiles_html(report) +
                     timeline_html(report);
  page += use_table_html(report);
  const std::string charts = charts_html({&report}, {report.label});
  if (!charts.empty()) page += "<h2>Over time</h2>\n<div class=\"charts\">\n" + charts + "</div>\n";
  page += slow_ranks_html(report);
  page += ranks_at_last_sample_html(report);
  if (!report.history.events().empty()) page += "<h2>Events</h2>\n" + events_table_html(report);
  return page + origin_html(report) + foot_html(made_at);
}

}  // namespace dlrun
