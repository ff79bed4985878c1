#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "common/json_lines.h"
#include "common/units.h"
#include "launcher/drawing/chart.h"
#include "launcher/report/run_report.h"
#include "launcher/runs/log_file.h"
#include "tests/contains.h"
#include "tests/temporary_directory.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

std::string event_line(int second, const std::string& kind, Json fields, int attempt = 0) {
  Json event{{"t", fmt::format("2026-01-01T00:00:{:02}.000Z", second)},
             {"event", kind},
             {"attempt", attempt}};
  event.update(fields);
  return to_checked_line(event);
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

RunReport report_of(const TemporaryDirectory& folder) {
  IndexEntry entry{"mnist-1", "mnist", folder.path(), "2026-01-01T00:00:00.000Z"};
  RunStatus status = assess(RunInspector::read_facts(folder.path()).value());
  return read_report(entry, std::move(status));
}

/// Text that would take effect in a page if it were not escaped.
constexpr char kHostile[] =
    "<script>alert(1)</script>\" onload='x' &amp; </style></pre><img src=x>";

/// Checks that every < of the page begins a tag that the page generator uses, and that the page has
/// no script, no event handler of kHostile and no web address.
void check_is_safe_page(const std::string& page) {
  static const std::vector<std::string> used_tags{
      "!DOCTYPE", "html",    "head",   "meta",       "title", "style", "body", "main",
      "h1",       "h2",      "p",      "div",        "span",  "b",     "i",    "dl",
      "dt",       "dd",      "figure", "figcaption", "svg",   "line",  "text", "polyline",
      "polygon",  "circle",  "table",  "thead",      "tbody", "tr",    "th",   "td",
      "details",  "summary", "pre",    "footer",     "wbr"};
  for (std::size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1)) {
    const std::size_t begin = at + (page[at + 1] == '/' ? 2 : 1);
    const std::string name = page.substr(begin, page.find_first_of(" >\n", begin) - begin);
    CAPTURE(page.substr(at, 60));
    CHECK(std::find(used_tags.begin(), used_tags.end(), name) != used_tags.end());
  }
  CHECK(page.find("onload='") == std::string::npos);
  CHECK(page.find("<script") == std::string::npos);
  CHECK(page.find("http://") == std::string::npos);
  CHECK(page.find("https://") == std::string::npos);
}

}  // namespace

TEST_CASE("ticks are round numbers inside the range, and numbers are shortened") {
  CHECK(round_ticks(0, 10, 5) == std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK(round_ticks(0.5, 3780, 6) == std::vector<double>{1000, 2000, 3000});
  CHECK(round_ticks(5, 5, 4) == std::vector<double>{5});
  CHECK(round_ticks(-1, 1, 4).size() == 5);
  CHECK(short_value_text(84'321) == "84.3k");
  CHECK(short_value_text(0.98125) == "0.9812");
  CHECK(short_value_text(2.5e6) == "2.5M");
}

TEST_CASE(
    "a chart of no points or one point is empty, and values that are not finite are left out") {
  Chart chart;
  CHECK(figure_html(chart).empty());
  chart.series = {{"a", 0, {{1, 1}}}};
  CHECK(figure_html(chart).empty());
  chart.series = {
      {"a", 0, {{1, std::nan("")}, {2, std::numeric_limits<double>::infinity()}, {3, 1}, {4, 2}}}};
  const std::string figure = figure_html(chart);
  CHECK(figure.find("nan") == std::string::npos);
  CHECK(figure.find("inf") == std::string::npos);
  CHECK(count(figure, "<polyline") == 1);
}

TEST_CASE("a curve from the smallest to the largest double has few ticks") {
  Chart chart;
  chart.title = "Loss";
  chart.may_be_logarithmic = true;
  chart.series.push_back({"training", 0, {{0, 1e-3}, {1, 1.5e308}, {2, 5e-324}}});
  const std::string figure = figure_html(chart);
  CHECK(figure.find("logarithmic") != std::string::npos);
  CHECK(figure.size() < 10'000);
}

TEST_CASE("a curve stays inside its drawing, also if it is constant or logarithmic") {
  for (const bool is_constant : {false, true}) {
    Chart chart;
    chart.title = "Loss";
    chart.may_be_logarithmic = true;
    ChartSeries series{"training", 0, {}};
    for (int x = 0; x < 5000; ++x)
      series.points.push_back(
          {static_cast<double>(x), is_constant ? 1.0 : 2.3 * std::exp(-x / 500.0)});
    chart.series.push_back(std::move(series));
    const std::string figure = figure_html(chart);
    CHECK((figure.find("logarithmic") != std::string::npos) == !is_constant);
    const auto begin = figure.find("points=\"") + 8;
    const std::string points = figure.substr(begin, figure.find('"', begin) - begin);
    CHECK(count(points, ",") <= 360);
    for (std::size_t at = 0; at < points.size();) {
      double x = 0, y = 0;
      REQUIRE(std::sscanf(points.c_str() + at, "%lf,%lf", &x, &y) == 2);
      CHECK((x >= 58 && x <= 506 && y >= 10 && y <= 208));
      at = points.find(' ', at) == std::string::npos ? points.size() : points.find(' ', at) + 1;
    }
  }
}

TEST_CASE("the page of a completed run has its results, timeline, curves, ranks and provenance") {
  const TemporaryDirectory folder;
  std::string events = event_line(0, "claimed", {{"job", "42"}, {"host", "n1"}}) +
                       event_line(1, "joined", {{"ranks", 2}, {"hosts", "n[1-2]"}});
  for (int second = 2; second < 40; ++second) {
    events += event_line(second, "samples",
                         {{"ranks", 2},
                          {"cpu", {0.5, 0.75, 1}},
                          {"rss_bytes", {1'000'000, 2'000'000, 3'000'000}},
                          {"slow_ranks", 1},
                          {"slow", {{{"rank", 1}, {"host", "n2"}, {"work_ms", 9.5}, {"lag", 0}}}}});
  }
  events +=
      event_line(40, "result", {{"test_accuracy", 0.97251}}) +
      event_line(41, "attempt_end", {{"code", 0}, {"reason", "ok"}}) +
      event_line(42, "ended",
                 {{"state", "completed"}, {"code", 0}, {"message", "all 2 ranks ended with 0"}});
  write(folder / "events.jsonl", events);
  std::string metrics;
  for (int step = 1; step < 30; ++step)
    metrics += fmt::format(
        "{{\"time\":\"2026-01-01T00:00:{:02}.000Z\",\"attempt\":0,\"step\":{},\"loss\":{},"
        "\"samples_per_s\":500{}}}\n",
        step, step, 1.0 / step, step % 10 == 0 ? ",\"test_loss\":0.5" : "");
  write(folder / "metrics.jsonl", metrics);
  write(folder / "provenance.json",
        R"({"dlrun":"9.9","user":"kim","host":"login","argv":["dlrun","submit","x.yaml"],)"
        R"("git":{"commit":"abc123"}})");
  write(folder / "resolved.yaml", "name: mnist  # x.yaml:1:1\ntrain:\n  batch: 32  # default\n");
  const std::string page = report_page(report_of(folder), "now");
  check_is_safe_page(page);
  CHECK(page.find("<b>0.9725</b><span>test accuracy</span>") != std::string::npos);
  CHECK(page.find("completed</span>") != std::string::npos);
  CHECK(page.find("from start to end") != std::string::npos);
  for (const char* title : {"Loss", "Throughput", "Processors", "Memory"}) {
    CHECK(page.find(fmt::format("<figcaption><b>{}</b>", title)) != std::string::npos);
  }
  CHECK(page.find("GPU utilisation") == std::string::npos);  // no utilisation was reported
  CHECK(page.find("38 of 38") != std::string::npos);         // rank 1 is slow in all 38 samples
  CHECK(page.find("abc123, clean") != std::string::npos);
  write(folder / "provenance.json", R"({"git":{"commit":"abc123","note":"no diff: too slow"}})");
  CHECK(report_page(report_of(folder), "now").find("abc123, changes unknown (no diff: too slow)") !=
        std::string::npos);
  CHECK(page.find("kim on login") != std::string::npos);
  CHECK(page.find("batch: 32") != std::string::npos);
}

TEST_CASE("all texts of a run are escaped in its page") {
  const TemporaryDirectory folder;
  write(folder / "events.jsonl",
        event_line(0, "claimed", {{"job", kHostile}, {"host", kHostile}}) +
            event_line(1, "joined", {{"ranks", 1}, {"hosts", kHostile}}) +
            event_line(2, kHostile, {{"message", kHostile}}) +
            event_line(2, "warning", {{"message", std::string(kHostile) + "\x1b[2J"}}) +
            event_line(3, "result", {{kHostile, kHostile}}) +
            event_line(3, "samples", {{"slow", {{{"rank", 0}, {"host", kHostile}}}}}) +
            event_line(4, "samples", {{"slow", {{{"rank", 0}, {"host", kHostile}}}}}) +
            event_line(4, "rank_failed",
                       {{"rank", 0}, {"host", kHostile}, {"code", 1}, {"error", kHostile}}) +
            event_line(5, "attempt_end", {{"code", 1}, {"reason", kHostile}}) +
            event_line(5, "ended", {{"state", "failed"}, {"code", 1}, {"message", kHostile}}));
  write(folder / "ranks.json", R"({"time":"<b onload='x'>","attempt":0,"nodes":["<script>"],)"
                               R"("columns":["rank","node"],"rows":[[0,0]]})");
  write(folder / "provenance.json",
        Json{{"user", kHostile}, {"argv", {kHostile}}, {"directory", kHostile}}.dump());
  write(folder / "resolved.yaml", std::string("name: ") + kHostile + "\n");
  write(folder / "job.sh", kHostile);
  RunReport report = report_of(folder);
  report.run.id = report.run.name = report.label = kHostile;
  report.problems.emplace_back(kHostile);
  check_is_safe_page(report_page(report, "now"));
  check_is_safe_page(comparison_page({report, report}, kHostile, "now"));
  CHECK(report_page(report, "now").find("&lt;script&gt;alert(1)&lt;/script&gt;") !=
        std::string::npos);
}

TEST_CASE(
    "on the page of a cancelled run, a rank that the cancellation has ended does not count as "
    "failed") {
  const auto page_of = [](const Json& end_of_rank, const char* reason) {
    const TemporaryDirectory folder;
    write(folder / "events.jsonl",
          event_line(0, "claimed", {{"job", "1"}}) +
              event_line(1, "joined", {{"ranks", 2}, {"hosts", "n1"}}) +
              event_line(4, "rank_failed", end_of_rank) +
              event_line(5, "attempt_end", {{"code", 143}, {"reason", reason}}) +
              event_line(5, "ended", {{"state", "cancelled"}, {"code", 143}}));
    return report_page(report_of(folder), "now");
  };
  const auto has_failed_rank = [&](const Json& end_of_rank, const char* reason) {
    return page_of(end_of_rank, reason).find("first to fail: rank 1 on n1") != std::string::npos;
  };
  const Json terminated{{"rank", 1}, {"host", "n1"}, {"code", 143}, {"signal", "SIGTERM"}};
  const Json killed{{"rank", 1}, {"host", "n1"}, {"code", 137}, {"signal", "SIGKILL"}};
  CHECK_FALSE(has_failed_rank(terminated, "signalled"));
  CHECK(has_failed_rank(killed, "rank_failed"));  // it failed before the cancellation
}

TEST_CASE("a failed run without metrics and with an incomplete record still gives a page") {
  const TemporaryDirectory folder;
  const std::string last = event_line(5, "progress", {{"step", 3}});
  write(folder / "events.jsonl",
        event_line(0, "claimed", {{"job", "1"}}) +
            event_line(1, "joined", {{"ranks", 2}, {"hosts", "n1"}}) +
            event_line(4, "rank_failed", {{"rank", 1}, {"host", "n1"}, {"code", 7}}) +
            last.substr(0, 30));
  const std::string page = report_page(report_of(folder), "now");
  check_is_safe_page(page);
  CHECK(page.find("first to fail: rank 1 on n1 ended with code 7") != std::string::npos);
  CHECK(page.find("ends in 30 bytes that are no whole event") != std::string::npos);
  CHECK(page.find("<svg") == std::string::npos);
}

TEST_CASE(
    "the page of several runs has a table of the runs' differences, and one drawing with all "
    "curves") {
  const TemporaryDirectory first, second;
  for (const auto* folder : {&first, &second}) {
    write(*folder / "events.jsonl",
          event_line(0, "claimed", {{"job", "1"}}) +
              event_line(9, "result", {{"test_accuracy", folder == &first ? 0.5 : 0.75}}));
    std::string metrics;
    for (int step = 1; step < 9; ++step)
      metrics +=
          fmt::format("{{\"time\":\"2026-01-01T00:00:{:02}.000Z\",\"step\":{},\"loss\":{}}}\n",
                      step, step, 1.0 / step);
    write(*folder / "metrics.jsonl", metrics);
    write(*folder / "resolved.yaml", fmt::format("name: x\ntrain:\n  batch: {}  # x\n  epochs: 3\n",
                                                 folder == &first ? 32 : 64));
  }
  std::vector<RunReport> reports{report_of(first), report_of(second)};
  reports[0].label = "one";
  reports[1].label = "two";
  const std::string page = comparison_page(reports, "both", "now");
  check_is_safe_page(page);
  CHECK(page.find("train.<wbr>batch</th>") != std::string::npos);
  CHECK(page.find("epochs</th>") == std::string::npos);
  CHECK(page.find(">0.75<") != std::string::npos);
  CHECK(page.find("<span class=\"key\"><i class=\"b1\"></i>batch 64</span>") != std::string::npos);
  CHECK(count(page, "<polyline") == 2);
}

TEST_CASE("curves and bands are interrupted between attempts") {
  Chart chart;
  chart.series = {{"a", 0, {{1, 1, 0}, {2, 2, 0}, {8, 3, 1}, {9, 4, 1}, {20, 5, 2}}}};
  chart.bands = {{0,
                  {{1, 1, 0}, {2, 1, 0}, {8, 1, 1}, {9, 1, 1}},
                  {{1, 2, 0}, {2, 2, 0}, {8, 2, 1}, {9, 2, 1}}}};
  const std::string figure = figure_html(chart);
  CHECK(count(figure, "<polyline") == 2);
  CHECK(count(figure, "<polygon") == 2);
  CHECK(count(figure, "<circle") == 1);  // the attempt with a single point

  // With many points, each attempt is thinned out separately.
  chart.series = {{"a", 0, {}}};
  for (int x = 0; x < 4000; ++x)
    chart.series[0].points.push_back({x * 1.0, 1.0 + x, x < 3990 ? 0 : 1});
  CHECK(count(figure_html(chart), "<polyline") == 2);

  const TemporaryDirectory folder;
  std::string events = event_line(0, "claimed", {{"job", "1"}});
  for (const int attempt : {0, 1}) {
    for (int step = 1; step < 5; ++step)
      events += event_line(10 * attempt + step, "progress",
                           {{"step", 2 * attempt + step}, {"loss", 0.5}}, attempt);
  }
  write(folder / "events.jsonl", events);
  CHECK(count(report_page(report_of(folder), "now"), "<polyline") == 2);
}

TEST_CASE(
    "the page of a restarted run has the reasons of its restarts, a legend, and the time up to the "
    "last event") {
  const TemporaryDirectory folder;
  write(folder / "events.jsonl",
        event_line(0, "claimed", {{"job", "1"}}) +
            event_line(1, "joined", {{"ranks", 2}, {"hosts", "n1"}}) +
            event_line(4, "attempt_end", {{"code", 137}, {"reason", "rank_failed"}}) +
            event_line(5, "restarting",
                       {{"cause", "failure"}, {"left", 1}, {"by", "lead"}, {"exclude", {"n3"}}}) +
            event_line(6, "joined", {{"ranks", 2}, {"hosts", "n1"}}, 1));
  RunReport report = report_of(folder);
  report.status.state = RunState::kRunning;
  const std::string page = report_page(report, "now");
  check_is_safe_page(page);
  CHECK(page.find("after failure: in the same allocation; 1 restart left; without n3") !=
        std::string::npos);
  CHECK(page.find("<i class=\"box isbad\"></i>ended with an error") != std::string::npos);
  CHECK(page.find("<i class=\"box\"></i>still running, or no end is recorded") !=
        std::string::npos);
  CHECK(page.find("ended well") == std::string::npos);  // no attempt has ended well
  CHECK(page.find("from start to the last event") != std::string::npos);
  CHECK(page.find("from start to end") == std::string::npos);
}

TEST_CASE(
    "an attempt's end at the time limit is shown as planned if another attempt follows, otherwise "
    "as an error") {
  const TemporaryDirectory folder;
  const auto attempt_events = [](int number, const char* reason, const char* cause) {
    return event_line(10 * number, "claimed", {{"job", "1"}}, number) +
           event_line(10 * number + 1, "joined", {{"ranks", 2}, {"hosts", "n1"}}, number) +
           event_line(10 * number + 7, "signal",
                      {{"signal", "SIGUSR1"}, {"where", "lead"}, {"word", "checkpoint"}}, number) +
           event_line(10 * number + 8, "attempt_end",
                      {{"code", 0}, {"reason", reason}, {"cause", cause}}, number);
  };
  const auto restart_event = [](int number, const char* cause) {
    return event_line(10 * number + 9, "restarting",
                      {{"cause", cause}, {"left", 1}, {"by", "slurm"}}, number);
  };
  const auto page_of = [&](const std::string& events) {
    write(folder / "events.jsonl", events);
    return report_page(report_of(folder), "now");
  };
  const std::string planned = "<div class=\"span isagain\"", error = "<div class=\"span isbad\"";
  const std::string requeued =
      attempt_events(0, "time_limit", "timeout") + restart_event(0, "timeout") +
      attempt_events(1, "signalled", "preemption") + restart_event(1, "preemption") +
      // Lead does not announce this restart.
      attempt_events(2, "signalled", "requeue");
  std::string page = page_of(requeued + attempt_events(3, "ok", ""));
  check_is_safe_page(page);
  CHECK(count(page, planned) == 3);
  CHECK(count(page, error) == 0);
  CHECK(count(page, "class=\"pin bad\"") == 0);
  CHECK(count(page, "<span class=\"bad\">attempt_end</span>") == 0);
  CHECK(page.find("<i class=\"box isagain\"></i>queued again as planned") != std::string::npos);
  CHECK(page.find("ended with an error") == std::string::npos);

  page = page_of(requeued + attempt_events(3, "time_limit", "timeout"));
  CHECK(count(page, planned) == 3);
  CHECK(count(page, error) == 1);
  CHECK(count(page, "<span class=\"bad\">attempt_end</span>") == 1);

  // A failure is an error, whatever follows it. The event about the restart may be written by the
  // next attempt.
  page = page_of(attempt_events(0, "rank_failed", "failure") +
                 event_line(10, "claimed", {{"job", "1"}}, 1) + restart_event(0, "failure") +
                 event_line(12, "joined", {{"ranks", 2}, {"hosts", "n1"}}, 1));
  CHECK(count(page, planned) == 0);
  CHECK(count(page, error) == 1);
  CHECK(count(page, ">attempt 0</span>") == 1);
  CHECK(count(page, ">attempt 1</span>") == 1);
}

TEST_CASE("a failed run's page has the last output of the first failed rank, escaped") {
  const TemporaryDirectory folder;
  write(
      folder / "events.jsonl",
      event_line(0, "claimed", {{"job", "1"}}) +
          event_line(1, "joined", {{"ranks", 2}, {"hosts", "n1"}}) +
          event_line(4, "rank_failed", {{"rank", 1}, {"host", "n1"}, {"code", 7}}) +
          event_line(5, "attempt_end",
                     {{"reason", "rank_failed"},
                      {"code", 7},
                      {"first_failed", {{"rank", 1}, {"host", "n1"}, {"code", 7}}}}) +
          event_line(
              5, "ended",
              {{"state", "failed"}, {"code", 7}, {"message", "rank 1 on n1 exited with code 7"}}));
  const auto log = rank_log(folder.path(), 0, 1);
  std::filesystem::create_directories(log.parent_path());
  write(log, "loading\nCUDA out of memory <2 GiB>\n");
  const RunReport report = report_of(folder);
  for (const std::string& page :
       {report_page(report, "now"), comparison_page({report, report}, "two", "now")}) {
    check_is_safe_page(page);
    CHECK(page.find("last output of rank 1:") != std::string::npos);
    CHECK(page.find("loading\nCUDA out of memory &lt;2 GiB&gt;</pre>") != std::string::npos);
    CHECK(page.find("first to fail") == std::string::npos);  // the run's message already says so
  }
}

TEST_CASE(
    "points of a sweep are listed best first, by the result in the first column after the state") {
  std::vector<RunReport> reports(4);
  const char* const accuracy[] = {"0.5", "", "0.9", "0.75"};
  for (std::size_t at = 0; at < reports.size(); ++at) {
    reports[at].label = fmt::format("{}  train.lr={}", at, at);
    reports[at].short_label = std::to_string(at);
    reports[at].keys = {{"train.lr", std::to_string(at)}};
    if (*accuracy[at] != 0)
      reports[at].result = {{"seconds", "1"}, {"test_accuracy", accuracy[at]}};
  }
  sort_best_first(reports);
  std::string order;
  for (const RunReport& report : reports) order += report.short_label;
  CHECK(order == "2301");
  const std::string page = comparison_page(reports, "Sweep", "now");
  const auto column = [&](std::string_view title) {
    return page.find(fmt::format(">{}</th>", title));
  };
  CHECK(column("state") < column("test accuracy"));
  CHECK(column("test accuracy") < column("train.<wbr>lr"));
  CHECK(column("train.<wbr>lr") < column("seconds"));
  // The cell has only the point's number, because the values have their own columns.
  CHECK(page.find("</i>2</td>") != std::string::npos);
  for (RunReport& report : reports)
    report.result = {{"test_loss", fmt::format("{}", report.result.empty() ? 0.1 : 0.2)}};
  sort_best_first(reports);
  CHECK(reports.front().short_label == "1");  // the smallest loss is first
}

TEST_CASE(
    "if few runs differ in many keys, the differences have their own table with one row per key") {
  std::vector<RunReport> reports(2);
  for (std::size_t at = 0; at < reports.size(); ++at) {
    reports[at].label = fmt::format("run-{}", at);
    reports[at].keys = {{"name", fmt::format("n{}", at)}};
    for (int key = 0; key < 6; ++key)
      reports[at].keys.emplace_back(fmt::format("train.k{}", key), std::to_string(at));
  }
  const std::string page = comparison_page(reports, "two", "now");
  CHECK(page.find("Keys that differ") != std::string::npos);
  CHECK(page.find("<td class=\"t\">train.k3</td><td class=\"w\">0</td><td class=\"w\">1</td>") !=
        std::string::npos);
  CHECK(page.find(">n1<") == std::string::npos);
}

TEST_CASE("a resolved spec becomes a list of keys and values") {
  const auto keys = flat_keys(
      "# made\nname: x  # a.yaml:1:1\nresources:\n  time: \"00:05:00\"  # here\n  deep:\n    er: "
      "'a # b'\nlaunch:\n  "
      "command:\n    - echo  # one\n"
      "    - \"two # 2\"\ntrain: {}\nwords: [\"python\", \"a \\\"b\\\"\"]  # there\nempty: "
      "\"\"\nquote: 'it''s'\nlist: [{\"from\": \"/a\", \"flags\": [\"ro\"]}]\nlines: |\n  key: "
      "no\n");
  REQUIRE(keys);
  CHECK(*keys ==
        std::vector<std::pair<std::string, std::string>>{{"name", "x"},
                                                         {"resources.time", "00:05:00"},
                                                         {"resources.deep.er", "a # b"},
                                                         {"launch.command", "echo, two # 2"},
                                                         {"train", "{}"},
                                                         {"words", "python, a \"b\""},
                                                         {"empty", "\"\""},
                                                         {"quote", "it's"},
                                                         {"list", "{from: /a, flags: [ro]}"},
                                                         {"lines", "key: no\n"}});
}

TEST_CASE(
    "a resolved spec that is not YAML, or has anchors, gives no keys but an error with the line") {
  const auto torn = flat_keys("name: x\nodd: \"un\n");
  REQUIRE_FALSE(torn);
  CHECK(torn.error().code == Errc::kInvalid);
  CHECK(torn.error().message.starts_with("resolved.yaml:2:"));
  CHECK_FALSE(flat_keys("a: &long text\nb: [*long, *long]\n"));
}

}  // namespace dlrun
