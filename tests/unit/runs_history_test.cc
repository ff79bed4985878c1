#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "common/json_lines.h"
#include "launcher/runs/history.h"
#include "launcher/runs/ranks.h"
#include "tests/temporary_directory.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

std::string event_line(int second, const std::string& kind, Json fields = Json::object(),
                       int attempt = 0) {
  Json event{{"t", fmt::format("2026-01-01T00:{:02}:{:02}.500Z", second / 60 % 60, second % 60)},
             {"event", kind},
             {"attempt", attempt}};
  event.update(fields);
  return to_checked_line(event);
}

/// Returns a row of ranks.json. The lag is 40 steps if the row is of rank 9 and is_slow is true,
/// and 0 otherwise.
std::string rank_row(int rank, double cpu, bool is_slow = false, int age_s = 1, double rss_gb = 1,
                     double work_ms = 5) {
  return fmt::format("[{},0,{},{},null,null,null,100,{},{},{},{}]", rank, cpu,
                     static_cast<std::int64_t>(rss_gb * 1e9), is_slow && rank == 9 ? 40 : 0,
                     work_ms, is_slow, age_s);
}

std::string ranks_text(const std::string& rows) {
  return R"({"time":"2026-01-01T00:00:00.000Z","attempt":2,"ranks":8,"nodes":["n1"],)"
         R"("columns":["rank","node","cpu","rss_bytes","gpu","gpu_used_bytes",)"
         R"("gpu_total_bytes","step","lag","work_ms","slow","age_s"],"rows":[)" +
         rows + "]}";
}

}  // namespace

TEST_CASE(
    "a history has attempts, curves, samples and events, and the same summary as sum_up_events()") {
  const std::string text =
      event_line(0, "claimed", {{"job", "42"}, {"host", "n1"}}) +
      event_line(1, "joined", {{"ranks", 2}, {"hosts", "n[1-2]"}}) +
      event_line(2, "progress", {{"step", 10}, {"steps", 100}, {"loss", 0.5}}) +
      event_line(3, "samples",
                 {{"ranks", 2},
                  {"cpu", {0.5, 0.75, 1}},
                  {"slow_ranks", 1},
                  {"slow", {{{"rank", 1}, {"host", "n2"}, {"work_ms", 9.5}}}}}) +
      event_line(4, "rank_failed", {{"rank", 1}, {"host", "n2"}, {"code", 7}}) +
      event_line(5, "attempt_end", {{"code", 7}, {"reason", "rank_failed"}}) +
      event_line(8, "claimed", {{"job", "42"}, {"host", "n1"}, {"again", true}}, 1) +
      event_line(9, "progress", {{"step", 12}}, 1);
  RunHistory history;
  history.add(text);
  REQUIRE(history.attempts().size() == 2);
  CHECK(history.attempts()[0].ranks == 2);
  CHECK(history.attempts()[0].reason == EndReason::kRankFailed);
  CHECK_FALSE(history.attempts()[1].ended);
  REQUIRE(history.progress().size() == 2);
  CHECK(history.progress()[0].loss == 0.5);
  REQUIRE(history.samples().size() == 1);
  CHECK(history.samples()[0].cpu->mean == 0.75);
  CHECK_FALSE(history.samples()[0].gpu);
  REQUIRE(history.slow_ranks().size() == 1);
  CHECK(history.slow_ranks().at(1).work_ms == 9.5);
  CHECK(history.events().size() == 5);
  CHECK(history.events()[2].text == "rank 1 on n2 ended with code 7");
  CHECK(history.events()[2].is_bad);
  // A requeued job claims the run again, and so does the next job of a chain.
  CHECK(history.events()[4].text == "job 42 on n1, which continues the run");
  const RunRecord summary = sum_up_events(text);
  CHECK(history.record().attempt == summary.attempt);
  CHECK(history.record().progress->step == summary.progress->step);
  CHECK(history.record().progress->steps == summary.progress->steps);
}

TEST_CASE(
    "a growing file is read in whole lines, and a truncated file is read again from its start") {
  const TemporaryDirectory folder;
  RunHistory history;
  CHECK_FALSE(history.read_more(folder.path()).value());  // there is no file yet
  const std::string second_line = event_line(1, "progress", {{"step", 2}});
  {
    std::ofstream file(folder / "events.jsonl");
    file << event_line(0, "progress", {{"step", 1}}) << second_line.substr(0, 20);
  }
  CHECK(history.read_more(folder.path()).value());
  CHECK(history.progress().size() == 1);
  CHECK(history.unfinished_bytes() == 20);
  std::ofstream(folder / "events.jsonl", std::ios::app) << second_line.substr(20);
  CHECK(history.read_more(folder.path()).value());
  CHECK_FALSE(history.read_more(folder.path()).value());
  CHECK(history.progress().size() == 2);
  CHECK(history.unfinished_bytes() == 0);
  std::ofstream(folder / "events.jsonl", std::ios::trunc)
      << event_line(0, "progress", {{"step", 1}});
  while (history.read_more(folder.path()).value()) {
  }
  CHECK(history.progress().size() == 1);
}

TEST_CASE("malformed fields of events, lines without a time and damaged lines are ignored") {
  RunHistory history;
  history.add(event_line(0, "samples", {{"cpu", "much"}, {"slow", 7}}) +
              event_line(0, "samples", {{"cpu", {1, 2}}, {"slow", {1, "x"}}}) +
              event_line(0, "progress", {{"step", "x"}, {"loss", nullptr}}) +
              to_checked_line({{"event", "x"}}) +
              event_line(1, "melted", {{"message", "all of it"}, {"rank", 3}, {"host", "n1"}}) +
              "rubbish\n");
  CHECK(history.samples().size() == 2);
  CHECK_FALSE(history.samples()[0].cpu);
  CHECK(history.slow_ranks().empty());
  REQUIRE(history.events().size() == 1);
  CHECK(history.events()[0].text == "all of it (rank 3 on n1)");
  CHECK(history.damaged_lines() == 1);
}

TEST_CASE(
    "the curve of a month of progress uses bounded memory, and keeps its first and last points") {
  RunHistory history;
  std::string lines;
  for (int step = 0; step < 40'000; ++step)
    lines += event_line(step % 3600, "progress", {{"step", step}});
  history.add(lines);
  CHECK(history.progress().size() < 17'000);
  CHECK(history.progress().size() > 8'000);
  CHECK(history.progress().front().step == 0);
  CHECK(history.progress().back().step == 39'999);
}

TEST_CASE("the time left is computed from the attempt's pace in the past minute") {
  RunHistory history;
  history.add(event_line(0, "progress", {{"step", 5000}}));
  CHECK_FALSE(seconds_until_steps(history, 10'000, 0));
  std::string lines;
  for (int second = 0; second <= 200; ++second) {
    const int pace = second < 100 ? 1 : 10;  // the second half is faster
    lines += event_line(second, "progress",
                        {{"step", second < 100 ? pace * second : 100 + pace * (second - 100)}}, 1);
  }
  history.add(lines);
  const double last = history.progress().back().t;
  CHECK(seconds_until_steps(history, 2100, last).value() == doctest::Approx(100).epsilon(0.02));
  CHECK(seconds_until_steps(history, 2100, last + 30).value() == doctest::Approx(70).epsilon(0.02));
  CHECK(seconds_until_steps(history, 2100, last + 500).value() == 0);
}

TEST_CASE("malformed lines in metrics.jsonl are ignored") {
  const TemporaryDirectory folder;
  CHECK(read_metrics(folder.path()).value().empty());
  std::ofstream(folder / "metrics.jsonl")
      << R"({"time":"2026-01-01T00:00:00.000Z","attempt":1,"epoch":1,"step":3,)"
      << R"("loss":0.5,"test_loss":0.25})"
      << "\n{\"ti\n[]\n";
  const auto points = read_metrics(folder.path()).value();
  REQUIRE(points.size() == 1);
  CHECK(points[0].test_loss == 0.25);
  CHECK_FALSE(points[0].test_accuracy);
}

TEST_CASE(
    "the curve of a metrics.jsonl of 1 GiB has over a thousand points, although most lines are "
    "skipped") {
  const TemporaryDirectory folder;
  const auto file = folder / "metrics.jsonl";
  std::string lines;
  for (int step = 0; step < 20'000; ++step)
    lines += fmt::format("{{\"time\":\"2026-01-01T00:00:00.000Z\",\"step\":{}}}\n", step);
  std::ofstream(file) << lines;
  std::filesystem::resize_file(file, std::uintmax_t{1} << 30U);
  std::ofstream(file, std::ios::app) << "\n" << lines;
  CHECK(read_metrics(folder.path()).value().size() > 1000);
}

TEST_CASE(
    "outliers are marked and come first: silent, slow and idle ranks, and ranks with much memory") {
  const auto ranks = parse_ranks(ranks_text(
      rank_row(0, 1.0) + "," + rank_row(1, 0.1) + "," + rank_row(2, 1.0, true, 1, 1, 20) + "," +
      rank_row(3, 1.0, false, 60) + "," + rank_row(4, 1.1, false, 1, 9) + "," + rank_row(5, 1.0) +
      "," + rank_row(9, 1.0, true) + "," + rank_row(7, 1.0, true, 1, 1, 30) +
      ",\"rubbish\",[null]"));
  REQUIRE(ranks);
  CHECK(ranks->attempt == 2);
  REQUIRE(ranks->rows.size() == 8);
  CHECK(ranks->count(RankMark::kSlow) == 3);
  std::vector<std::int64_t> order;
  for (const RankSample* row : ranks->outliers_first()) order.push_back(row->rank);
  CHECK(order == std::vector<std::int64_t>{3, 9, 7, 2, 1, 4, 0, 5});
  CHECK(ranks->outliers_first()[0]->mark == RankMark::kSilent);
  CHECK(ranks->outliers_first()[4]->mark == RankMark::kIdle);
  CHECK(ranks->outliers_first()[5]->mark == RankMark::kMuchMemory);
}

TEST_CASE("an idle rank beside a busy one is marked, and the busy one is not") {
  const auto ranks = parse_ranks(ranks_text(rank_row(0, 1.0) + "," + rank_row(1, 0.0)));
  REQUIRE(ranks);
  CHECK(ranks->rows[0].mark == RankMark::kNone);
  CHECK(ranks->rows[1].mark == RankMark::kIdle);
}

TEST_CASE("a malformed ranks.json is ignored, and odd values in it do no harm") {
  for (const char* text :
       {"", "{}", "[]", R"({"columns":1,"rows":[]})", R"({"columns":["rank"],"rows":)"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_ranks(text));
  }
  const auto odd = parse_ranks(
      R"({"columns":[7,"rank","node"],"nodes":{},"rows":[[0,1,-5],[0,2,99999999999999]]})");
  REQUIRE(odd);
  CHECK(odd->rows.size() == 2);
  CHECK(odd->rows[0].node.empty());
}

TEST_CASE("a rank that exits after the warning (USR1) is no failure if another attempt follows") {
  const std::string exit_of_rank =
      event_line(3, "rank_failed", {{"rank", 0}, {"host", "n1"}, {"code", 1}});
  const std::string end =
      event_line(4, "attempt_end", {{"code", 1}, {"reason", "rank_failed"}, {"cause", "timeout"}});
  const std::string again = event_line(5, "restarting", {{"cause", "timeout"}, {"left", 2}});
  const std::string warning =
      event_line(2, "signal", {{"signal", "SIGUSR1"}, {"where", "lead"}, {"word", "checkpoint"}});
  RunHistory history;
  history.add(warning + exit_of_rank + end);
  CHECK(history.events()[1].text == "rank 0 on n1 ended with code 1, after the warning (USR1)");
  CHECK(history.events()[1].is_bad);
  history.add(again);
  CHECK_FALSE(history.events()[1].is_bad);
  RunHistory unwarned;
  unwarned.add(exit_of_rank + end + again);
  CHECK(unwarned.events()[0].text == "rank 0 on n1 ended with code 1");
  CHECK(unwarned.events()[0].is_bad);
  // The warning of an attempt does not count for the next one.
  history.add(event_line(6, "rank_failed", {{"rank", 0}, {"host", "n1"}, {"code", 1}}, 1));
  CHECK(history.events().back().text == "rank 0 on n1 ended with code 1");
}

}  // namespace dlrun
