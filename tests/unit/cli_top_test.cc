#include <algorithm>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/terminal/top_view.h"
#include "common/json_lines.h"
#include "common/text.h"
#include "launcher/view/overview_text.h"
#include "tests/time_bounds.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

std::string event_line(int second, const std::string& kind, Json fields) {
  Json event{
      {"t", fmt::format("2026-01-01T00:00:{:02}.000Z", second)}, {"event", kind}, {"attempt", 0}};
  event.update(fields);
  return to_checked_line(event);
}

/// Returns the overview of a running run. The rank with the highest number is slow.
RunOverview overview_of_running_run(int ranks) {
  RunOverview overview;
  overview.run.id = "mnist-20260101-000000-abcd";
  overview.history.add(
      event_line(0, "claimed", {{"job", "42"}, {"host", "n1"}}) +
      event_line(1, "joined", {{"ranks", ranks}, {"hosts", "n[1-9]"}}) +
      event_line(10, "progress",
                 {{"step", 10}, {"steps", 100}, {"loss", 1.0}, {"samples_per_s", 500}}) +
      event_line(20, "progress",
                 {{"step", 20}, {"steps", 100}, {"loss", 0.5}, {"samples_per_s", 700}}));
  overview.status.facts.record = overview.history.record();
  overview.status.state = RunState::kRunning;
  overview.status.job.id = "42";
  overview.now = *seconds_of_utc("2026-01-01T00:00:20.000Z");
  RankSnapshot snapshot;
  for (int rank = 0; rank < ranks; ++rank) {
    RankSample row;
    row.rank = rank;
    row.node = fmt::format("n{}", rank / 8);
    row.cpu = 1.0;
    row.rss_bytes = 2e9;
    row.step = 20;
    if (rank == ranks - 1) {
      row.mark = RankMark::kSlow;
      row.lag = 7;
    }
    snapshot.rows.push_back(std::move(row));
  }
  overview.ranks = std::move(snapshot);
  return overview;
}

std::size_t width_of(const std::string& line) {
  std::size_t width = 0;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line[at] == '\033') {
      while (line[at] != 'm') ++at;
    } else if ((static_cast<unsigned char>(line[at]) & 0xc0U) != 0x80U) {
      ++width;
    }
  }
  return width;
}

/// Returns the lines as a terminal receives them.
std::vector<std::string> lines_of(const RunOverview& overview, const TopSize& size, bool colour) {
  std::vector<std::string> lines;
  for (const Text& line : top_lines(overview, size)) lines.push_back(line.render(colour));
  return lines;
}

std::string text_of(const RunOverview& overview, const TopSize& size = {120, 0, 0},
                    bool colour = false) {
  return join(lines_of(overview, size, colour), "\n");
}

}  // namespace

TEST_CASE(
    "ranks that do not fit on the screen are counted, with a hint to a taller window or to "
    "--ranks") {
  const auto any_line_has = [](const std::vector<std::string>& lines, std::string_view part) {
    return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
      return line.find(part) != std::string::npos;
    });
  };
  const RunOverview overview = overview_of_running_run(64);
  CHECK(any_line_has(lines_of(overview, {100, 24, 0}, false),
                     "more ranks; make the window taller to see more, q quits"));
  CHECK(
      any_line_has(lines_of(overview, {100, 0, 4}, false), "60 more ranks; --ranks N shows more"));
  CHECK(any_line_has(lines_of(overview, {100, 40, 4}, false),
                     "60 more ranks; --ranks N shows more, q quits"));
  CHECK_FALSE(any_line_has(lines_of(overview_of_running_run(4), {100, 40, 0}, false), "q quits"));
}

TEST_CASE(
    "the JSON of top has at most N ranks with -n N, outliers first, and all ranks with -n 0") {
  const RunOverview overview = overview_of_running_run(8);
  CHECK(overview_json(overview)["rank_samples"].size() == 8);
  const auto samples = overview_json(overview, 3)["rank_samples"];
  REQUIRE(samples.size() == 3);
  CHECK(samples[0]["rank"] == 7);
  CHECK(overview_json(overview, 9)["rank_samples"].size() == 8);
  CHECK(overview_json(overview, 0)["rank_samples"].size() == 8);  // -n 0: no limit
}

TEST_CASE(
    "the head and the table of top show the same step for rank 0: the newest one of the attempt in "
    "the run's record") {
  RunOverview overview = overview_of_running_run(2);
  overview.ranks->rows[0].step = 31;  // the samples are newer than the last progress report
  std::string text = text_of(overview);
  CHECK(text.find("step 31/100") != std::string::npos);
  CHECK(newest_step(overview) == 31);
  overview.ranks->rows[0].step = 12;
  text = text_of(overview);
  CHECK(text.find("step 20/100") != std::string::npos);
  CHECK(text.find(" 12 ") == std::string::npos);
  overview.ranks->attempt = 1;  // the record is still in attempt 0
  overview.ranks->rows[0].step = 99;
  CHECK(newest_step(overview) == 20);
}

TEST_CASE(
    "top has a line for each point of a sweep, and running points come first if not all points "
    "fit") {
  RunOverview overview;
  overview.run.id = "sweep-1";
  overview.status.state = RunState::kRunning;
  overview.status.sweep.emplace().points = 40;
  std::vector<PointOverview> points(40);
  for (std::size_t at = 0; at < points.size(); ++at) {
    points[at].number = at;
    points[at].values = fmt::format("train.lr={}", at);
    points[at].state = at < 20 ? RunState::kCompleted : RunState::kPending;
    if (at < 20) points[at].result = R"({"test_accuracy":0.5})";
    points[at].detail = "Resources";
  }
  points[30].state = RunState::kRunning;
  points[30].progress.emplace();
  points[30].progress->step = 25;
  points[30].progress->steps = 100;
  points[31].state = RunState::kFailed;
  points[31].detail = std::string("rank 0 ended \x1b[2J");
  overview.points = std::make_shared<const std::vector<PointOverview>>(points);
  const auto any_line_has = [](const std::vector<std::string>& lines, std::string_view part) {
    return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
      return line.find(part) != std::string::npos;
    });
  };
  for (const std::size_t columns : {20, 60, 100}) {
    const auto lines = lines_of(overview, {columns, 24, 0}, true);
    CHECK(lines.size() <= 24);
    for (const auto& line : lines) CHECK(width_of(line) <= columns);
  }
  const auto lines = lines_of(overview, {100, 24, 0}, false);
  CHECK(any_line_has(lines, " 30  train.lr=30  running"));
  CHECK(any_line_has(lines, " 25 %  step 25/100"));
  CHECK(any_line_has(lines, " 31  train.lr=31  failed"));
  CHECK(any_line_has(lines, "rank 0 ended \\x1b[2J"));
  CHECK(any_line_has(lines, "more points; dlrun sweep lists them"));
  const auto all = lines_of(overview, {100, 60, 0}, false);
  CHECK(any_line_has(all, "  0  train.lr=0   completed    test_accuracy 0.5"));
  CHECK(any_line_has(all, " 39  train.lr=39  pending      Resources"));
  CHECK_FALSE(any_line_has(all, "more points"));
  // -n N limits the points in the live view and in a single print. The live view never exceeds the
  // screen.
  for (const std::size_t rows : {0, 60})
    CHECK(any_line_has(lines_of(overview, {100, rows, 3}, false), " 37 more points"));
  const auto full = lines_of(overview, {100, 24, 30}, false);
  CHECK(full.size() == 24);
  CHECK(any_line_has({full.back()}, "more points; dlrun sweep lists them"));
  points.resize(4);
  overview.points = std::make_shared<const std::vector<PointOverview>>(points);
  for (const std::size_t rows : {0, 60}) {
    const auto three = lines_of(overview, {100, rows, 3}, false);
    CHECK(any_line_has(three, " 2  train.lr=2 "));
    CHECK_FALSE(any_line_has(three, " 3  train.lr=3 "));
    CHECK(any_line_has({three.back()}, " 1 more point; dlrun sweep lists it"));
    CHECK(any_line_has(lines_of(overview, {100, rows, 4}, false), " 3  train.lr=3 "));
  }
}

TEST_CASE("top shows state, progress, time left, throughput, loss and the ranks") {
  const std::string text = text_of(overview_of_running_run(4));
  CHECK(text.find("mnist-20260101-000000-abcd  running  job 42") != std::string::npos);
  CHECK(text.find("4 ranks on n[1-9] for 20 s") != std::string::npos);
  CHECK(text.find(" 20 %  step 20/100  1 min 20 s left") != std::string::npos);
  CHECK(text.find("700 samples/s    ▁█") != std::string::npos);
  CHECK(text.find("loss        0.5              █▁") != std::string::npos);
  CHECK(text.find("RANK  NODE   CPU   MEMORY  STEP") != std::string::npos);
  CHECK(text.find("   3  n0    1.00  1.9 GiB    20  slow: 7 steps behind") != std::string::npos);
  CHECK(text.find("joined       4 ranks on n[1-9]") != std::string::npos);
  CHECK(text.find('\033') == std::string::npos);
}

TEST_CASE("top shows a huge loss in few characters, and no negative number of cores") {
  RunOverview overview = overview_of_running_run(1);
  const auto add = [&](int second, Json cpu) {
    overview.history.add(event_line(second, "progress", {{"step", 30}, {"loss", 1e308}}) +
                         event_line(second, "samples", {{"ranks", 3}, {"cpu", std::move(cpu)}}));
    overview.status.facts.record = overview.history.record();
  };
  add(30, Json::array({1e308, -1, 0}));
  CHECK(text_of(overview).find("loss        1e+308 ") != std::string::npos);
  CHECK(text_of(overview).find("cores") == std::string::npos);
  // The range of this curve is infinite, so no curve is drawn.
  overview.history.add(event_line(30, "progress", {{"step", 31}, {"loss", -1e308}}));
  overview.status.facts.record = overview.history.record();
  CHECK(text_of(overview).find("loss        -1e+308          \n") != std::string::npos);
  add(31, Json::array({0.5, 1e308, 1e308}));
  CHECK(text_of(overview).find("cores       1e+308 (least 0.50, most 1e+308)") !=
        std::string::npos);
}

TEST_CASE(
    "with 10,000 ranks top shows the outliers first, counts the others, and takes less than half a "
    "second") {
  const RunOverview overview = overview_of_running_run(10'000);
  const auto begin = std::chrono::steady_clock::now();
  const auto lines = lines_of(overview, {100, 30, 0}, true);
  CHECK(std::chrono::steady_clock::now() - begin <
        wall_limit(std::chrono::milliseconds(500)));  // usually 2 ms
  CHECK(lines.size() <= 30);
  const std::string text = join(lines, "\n");
  const auto slow = text.find("9999"), line_end = text.find("\n", slow);
  CHECK(text.find("RANK") < slow);
  CHECK(text.substr(slow, line_end - slow).find("slow: 7 steps behind") != std::string::npos);
  CHECK(text.find(" more ranks") != std::string::npos);
}

TEST_CASE("no line of top is wider than the terminal or below its last row, whatever the size") {
  RunOverview overview = overview_of_running_run(20);
  overview.status.detail = std::string(300, 'x');
  for (const std::size_t columns : {1, 2, 3, 20, 39, 40, 41, 80, 200}) {
    for (const std::size_t rows : {1, 2, 5, 10, 24, 60}) {
      const auto lines = lines_of(overview, {columns, rows, 0}, true);
      CHECK(lines.size() <= rows);
      for (const auto& line : lines) CHECK(width_of(line) <= columns);
    }
  }
}

TEST_CASE("escape sequences in a run's files do not reach the terminal of top") {
  RunOverview overview = overview_of_running_run(1);
  overview.run.id = "a\033[2Jb";
  overview.status.detail = "\033]0;owned\a";
  overview.ranks->rows[0].node = "n\033[31m1";
  overview.history.add(event_line(21, "warning", {{"message", "\033[?1049l\r\n"}}));
  const std::string text = text_of(overview);
  CHECK(text.find('\033') == std::string::npos);
  CHECK(text.find('\a') == std::string::npos);
  CHECK(text.find('\r') == std::string::npos);
  CHECK(text.find("n\\x1b[31m1") != std::string::npos);
}

TEST_CASE("top shows why a run is pending or failed, without a table of ranks") {
  RunOverview overview;
  overview.run.id = "x-1";
  overview.status.state = RunState::kPending;
  overview.status.detail = "Resources, expected start 2026-01-01T10:00:00";
  CHECK(text_of(overview) == " x-1  pending\n Resources, expected start 2026-01-01T10:00:00");
  overview.status.state = RunState::kFailed;
  overview.status.detail = "rank 1 on n2 exited with code 7";
  CHECK(text_of(overview) == " x-1  failed\n rank 1 on n2 exited with code 7");
}

TEST_CASE("top shows no ranks if their samples are from another attempt than the run's record") {
  RunOverview overview = overview_of_running_run(2);
  overview.ranks->attempt = 3;
  CHECK(text_of(overview).find("RANK") == std::string::npos);
  CHECK(text_of(overview).find("no rank has been sampled yet") != std::string::npos);
}

}  // namespace dlrun
