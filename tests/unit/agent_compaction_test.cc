// Tests that compaction keeps the run's record small and loses no event that affects a decision.

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "common/files.h"
#include "common/json_lines.h"
#include "common/run_events.h"
#include "common/text.h"
#include "runtime/agent/event_compaction.h"
#include "runtime/agent/event_log.h"
#include "runtime/agent/retry.h"
#include "tests/temporary_directory.h"
#include "tests/time_bounds.h"

using namespace dlrun;
using namespace dlrun::agent;
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kBegin = 1'790'000'000'000;  // ms since 1970

// The number of progress events of an attempt in long_record(), one per second. With a sanitizer
// fewer are enough to find a wrong access to memory; only the other builds check sizes.
constexpr int kProgressEvents = kWithSanitizer ? 3'500 : 35'000;

std::string line_at(std::int64_t ms, std::string_view event, int attempt, Json fields) {
  Json object;
  object["t"] =
      utc_timestamp(std::chrono::system_clock::time_point(std::chrono::milliseconds(kBegin + ms)));
  object["event"] = event;
  object["attempt"] = attempt;
  for (const auto& [key, value] : fields.items()) object[key] = value;
  return to_checked_line(object);
}

/// Returns progress events from second `from_s` on, one per second, and a samples event each
/// minute. The attempt's furthest step is in the middle.
std::string progress_events(std::int64_t from_s, int seconds, int attempt,
                            std::int64_t furthest_step) {
  std::string text;
  for (int i = 0; i < seconds; ++i) {
    const auto time = utc_timestamp(std::chrono::system_clock::time_point(
        std::chrono::milliseconds(kBegin + (from_s + i) * 1000)));
    text += checked_line_of_text(fmt::format(
        R"({{"t":"{}","event":"progress","attempt":{},"epoch":1,"step":{},"steps":5000000,)"
        R"("loss":0.25,"samples_per_s":123.5,"accuracy":0.125,"work_ms":12.5}})",
        time, attempt, i == seconds / 2 ? furthest_step : i));
    if (i % 60 == 0)
      text += line_at((from_s + i) * 1000, "samples", attempt,
                      {{"ranks", 8}, {"cpu", {1.0, 2.0, 3.0}}});
  }
  return text;
}

/// Returns the events of three attempts, each with kProgressEvents progress events and with events
/// that affect decisions.
std::string long_record() {
  std::string text;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const std::int64_t from_s = attempt * 40'000;
    text += line_at(from_s * 1000, "claimed", attempt, {{"job", "42"}, {"host", "n1"}});
    text += line_at(from_s * 1000, "joined", attempt, {{"ranks", 8}, {"hosts", "n[1-2]"}});
    text += progress_events(from_s, kProgressEvents, attempt, 1'000'000 + attempt);
    text += line_at((from_s + kProgressEvents) * 1000, "warning", attempt, {{"message", "a word"}});
    text += line_at((from_s + kProgressEvents) * 1000, "result", attempt, {{"test_accuracy", 0.5}});
    text +=
        line_at((from_s + kProgressEvents + 1) * 1000, "result", attempt, {{"test_accuracy", 0.6}});
    text += line_at((from_s + kProgressEvents + 2) * 1000, "rank_failed", attempt,
                    {{"rank", 3}, {"code", 9}});
    text += line_at((from_s + kProgressEvents + 3) * 1000, "attempt_end", attempt,
                    {{"reason", "hang"}, {"cause", "hang"}, {"code", 79}});
    text += line_at(
        (from_s + kProgressEvents + 4) * 1000, "restarting", attempt,
        {{"cause", "hang"}, {"left", 9 - attempt}, {"exclude", {fmt::format("bad{}", attempt)}}});
  }
  return text;
}

/// Returns the lines of events of importance kEssential. Leaves out the results with 0.5, which are
/// not the last results of their attempts.
std::vector<std::string> essential_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (const auto line : split(text, '\n')) {
    if (line.empty() || importance_of(kind_of_line(line)) != EventImportance::kEssential) continue;
    if (kind_of_line(line) == "result" && line.find("0.5") != std::string_view::npos) continue;
    lines.emplace_back(line);
  }
  return lines;
}

std::string content(const fs::path& path) {
  return read_file(path, 1U << 30U).value();
}

}  // namespace

TEST_CASE(
    "a compacted record keeps all events that affect decisions byte for byte, and curves with "
    "fewer points") {
  const TemporaryDirectory run;
  const auto path = run / "events.jsonl";
  const std::string before = long_record();
  REQUIRE(write_file_atomic(path, before).has_value());
  REQUIRE(compact_events(path).has_value());
  const std::string after = content(path);
  CHECK(essential_lines(after) == essential_lines(before));
  CHECK(parse_checked_lines(after).damaged_line_count == 0);
  CHECK(fs::directory_iterator(run.path())->path() == path);  // no temporary file is left
  if (kWithSanitizer) return;
  CHECK(after.size() < 8U << 20U);
  CHECK(after.size() < before.size() / 2);
  // The points are spread over the whole time.
  std::array<int, 6> points_in_part{};
  std::size_t count = 0;
  for (const auto line : split(after, '\n')) {
    if (kind_of_line(line) != "progress") continue;
    ++points_in_part[static_cast<std::size_t>((*time_ms_of_line(line) - kBegin) / 1000 / 20'000)];
    ++count;
  }
  CHECK(count > 10'000);
  CHECK(count < 20'000);
  for (const int number : points_in_part) CHECK(number > 1000);
}

TEST_CASE("a compacted record keeps the result and the furthest progress of each component") {
  const TemporaryDirectory run;
  const auto path = run / "events.jsonl";
  std::string text;
  for (const auto* component : {"server", "trainer"}) {
    for (int i = 0; i < 40'000; ++i) {
      text += line_at(i * 10, "progress", 0,
                      {{"component", component}, {"step", i == 20'000 ? 1'000'000 : i}});
    }
    text += line_at(400'000, "result", 0, {{"component", component}, {"test_accuracy", 0.5}});
  }
  REQUIRE(write_file_atomic(path, text).has_value());
  REQUIRE(compact_events(path).has_value());
  int result_count = 0;
  int furthest_count = 0;
  const auto after = content(path);
  for (const auto line : split(after, '\n')) {
    result_count += kind_of_line(line) == "result" ? 1 : 0;
    furthest_count += line.find("\"step\":1000000,") != std::string_view::npos ? 1 : 0;
  }
  CHECK(result_count == 2);
  CHECK(furthest_count == 2);
}

TEST_CASE("a retry decides the same from a compacted record as from the whole record") {
  const TemporaryDirectory run;
  const auto path = run / "events.jsonl";
  REQUIRE(write_file_atomic(path, long_record()).has_value());
  const auto before = read_history_file(path, false);
  REQUIRE(before.has_value());
  for (int times = 0; times < 3; ++times) REQUIRE(compact_events(path).has_value());
  const auto after = read_history_file(path, false);
  REQUIRE(after.has_value());
  CHECK(after->history.restart_count() == 3);
  CHECK(after->history.restart_count() == before->history.restart_count());
  CHECK(after->history.fruitless_count() == before->history.fruitless_count());
  CHECK(after->history.bad_nodes() == std::set<std::string>{"bad0", "bad1", "bad2"});
  CHECK(after->last.attempt == before->last.attempt);
  CHECK(after->last.cause == before->last.cause);
  // The furthest step, 1'000'002, is in the middle of the last curve. An attempt that does not get
  // beyond it is fruitless.
  auto history = after->history;
  history.add_attempt(1'000'002, Cause::kHang);
  CHECK(history.fruitless_count() == 1);
}

TEST_CASE("compacting a compacted record changes nothing") {
  const TemporaryDirectory run;
  const auto path = run / "events.jsonl";
  REQUIRE(write_file_atomic(path, long_record()).has_value());
  REQUIRE(compact_events(path).has_value());
  const std::string once = content(path);
  REQUIRE(compact_events(path).has_value());
  CHECK(content(path) == once);
}

TEST_CASE(
    "a compaction that fails leaves the record unchanged, and the next compaction replaces the "
    "temporary file") {
  const TemporaryDirectory run;
  const auto path = run / "events.jsonl";
  const std::string before = long_record();
  REQUIRE(write_file_atomic(path, before).has_value());
  // The temporary file cannot be created.
  REQUIRE(::mkdir((run / ".events.jsonl.compacting").c_str(), 0700) == 0);
  CHECK_FALSE(compact_events(path).has_value());
  CHECK(content(path) == before);
  REQUIRE(::rmdir((run / ".events.jsonl.compacting").c_str()) == 0);
  // The next compaction replaces the temporary file of a killed compaction.
  REQUIRE(write_file_atomic(run / ".events.jsonl.compacting", "half").has_value());
  CHECK(compact_events(path).has_value());
  CHECK_FALSE(fs::exists(run / ".events.jsonl.compacting"));
}

TEST_CASE("a compacted record whose folder cannot be synced is used, and the failure is reported") {
  const TemporaryDirectory run;
  const auto path = run / "events.jsonl";
  std::string text = long_record();
  const std::string more = progress_events(120'000, 5000, 3, 7);
  while (text.size() < kCompactAtBytes) text += more;
  text.resize(text.rfind('\n', kCompactAtBytes - 1) + 1);
  REQUIRE(write_file_atomic(path, text).has_value());
  auto log = EventLog::open(path);
  REQUIRE(log.has_value());
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  {
    // The limit allows the compaction to open the old and the new file, but not the folder.
    const UniqueFd first(::dup(0)), second(::dup(0)), third(::dup(0));
    const rlimit two_more{static_cast<rlim_t>(third.get()), before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &two_more) == 0);
  }
  // Together these events are longer than a line of `more`, so the record grows beyond
  // kCompactAtBytes.
  for (int i = 0; i < 4; ++i) log->record(events::Progress{.step = i});
  log->record(events::AttemptEnd{.reason = EndReason::kOk});
  const bool is_drained = log->drain(wall_limit(std::chrono::seconds(30)));
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  REQUIRE(is_drained);
  const auto failure = log->take_failure();
  REQUIRE(failure.has_value());
  CHECK(failure->message.find("EMFILE") != std::string::npos);
  CHECK(fs::file_size(path) < kCompactAtBytes / 2);
  log->record(events::Ended{});
  REQUIRE(log->drain(wall_limit(std::chrono::seconds(30))));
  CHECK(content(path).find("\"ended\"") != std::string::npos);
}

TEST_CASE("events that lead writes while its record is compacted are kept") {
  const TemporaryDirectory run;
  const auto path = run / "events.jsonl";
  std::string text = long_record();
  const std::string more = progress_events(120'000, 5000, 3, 7);
  while (text.size() < kCompactAtBytes - (1U << 20U)) text += more;
  text.resize(text.rfind('\n', kCompactAtBytes - (1U << 16U)) + 1);
  REQUIRE(write_file_atomic(path, text).has_value());
  auto log = EventLog::open(path);
  REQUIRE(log.has_value());
  CHECK(fs::file_size(path) == text.size());
  log->set_attempt(4);
  for (int i = 0; i < 2000; ++i) log->record(events::Progress{.step = i});
  log->record(events::AttemptEnd{.reason = EndReason::kOk});
  REQUIRE(log->drain(wall_limit(std::chrono::seconds(30))));
  CHECK_FALSE(log->take_failure().has_value());
  CHECK(fs::file_size(path) < kCompactAtBytes);
  const std::string after = content(path);
  CHECK(parse_checked_lines(after).damaged_line_count == 0);
  CHECK(essential_lines(after).size() == essential_lines(text).size() + 1);
  CHECK(after.find("\"step\":1999") != std::string::npos);
}

TEST_CASE(
    "a record of more than 1 GiB from an older version can be opened, and its restarts are "
    "counted") {
  const TemporaryDirectory run;
  const auto path = run / "events.jsonl";
  const std::string text = long_record();
  REQUIRE(write_file_atomic(path, text).has_value());
  // The record gets a hole of 1 GiB, as a file system may leave after a crash, and then the newest
  // events.
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  const off_t end = (off_t{1} << 30) + static_cast<off_t>(text.size());
  const std::string last = "\n" + line_at(200'000'000, "claimed", 9, {{"job", "43"}}) +
                           line_at(200'001'000, "restarting", 9, {{"cause", "oom"}, {"left", 1}}) +
                           "{\"torn";
  REQUIRE(::pwrite(file.get(), last.data(), last.size(), end) == static_cast<ssize_t>(last.size()));
  auto log = EventLog::open(path);
  REQUIRE(log.has_value());
  CHECK(log->cut_bytes() == std::string_view("{\"torn").size());
  CHECK(fs::file_size(path) < kCompactAtBytes);
  const auto history = read_history_file(path, false);
  REQUIRE(history.has_value());
  CHECK(history->history.restart_count() == 4);
  CHECK(history->last.attempt == 9);
}

// This test is about sizes. Under a sanitizer the other tests compact the same records.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE(
    "a record of several days, with an event each second, stays below 64 MiB and keeps points of "
    "its first day") {
  // Compacts like EventLog, but without an fsync for each event. A month (DLRUN_RECORD_DAYS=30)
  // takes a minute; its largest file is as large as that of four days, because each compaction
  // leaves the same number of lines.
  const char* const days_text = std::getenv("DLRUN_RECORD_DAYS");
  const std::int64_t days = parse_int(days_text != nullptr ? days_text : "").value_or(4);
  const TemporaryDirectory run;
  const auto path = run / "events.jsonl";
  constexpr int kChunk = 20'000;
  std::size_t largest = 0;
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  int compactions = 0;
  for (std::int64_t second = 0; second < days * 86'400; second += kChunk) {
    REQUIRE(write_all(file.get(), progress_events(second, kChunk, 0, kChunk)).has_value());
    struct stat info {};
    REQUIRE(::fstat(file.get(), &info) == 0);
    largest = std::max(largest, static_cast<std::size_t>(info.st_size));
    if (info.st_size <= static_cast<off_t>(kCompactAtBytes)) continue;
    auto compacted = compact_events(path);
    REQUIRE(compacted.has_value());
    file = std::move(compacted->file);
    ++compactions;
  }
  MESSAGE("largest ", largest >> 10U, " KiB, after ", compactions, " compactions");
  CHECK(largest < kLargestRecordBytes);
  CHECK(compactions >= days / 4);
  // The first day is still in the curve.
  std::size_t first_day_points = 0;
  const std::string after = content(path);
  for (const auto line : split(after, '\n')) {
    if (kind_of_line(line) == "progress" && *time_ms_of_line(line) < kBegin + 86'400'000)
      ++first_day_points;
  }
  CHECK(first_day_points > 200);
}
#endif

TEST_CASE(
    "the known fields of a progress report and at most 64 values of a final report are recorded, "
    "without long or nested values") {
  Json body{{"step", 7},
            {"loss", 0.5},
            {"epoch", "one"},
            {"huge", std::string(60'000, 'x')},
            {"nested", {{"a", {{"b", 1}}}}},
            {"work_ms", 3.5},
            {"op", "progress"}};
  CHECK(events::Progress::of(body).fields() ==
        Json({{"step", 7}, {"loss", 0.5}, {"work_ms", 3.5}}));
  Json result{{"final", true},        {"test_accuracy", 0.9},
              {"parameters", "3f2a"}, {"notes", std::string(60'000, 'x')},
              {"nested", {1, 2}},     {"event", "ended"}};
  CHECK(events::FinalReports::of(result).values ==
        Json({{"test_accuracy", 0.9}, {"parameters", "3f2a"}}));
  for (int i = 0; i < 1000; ++i) result[fmt::format("k{}", i)] = i;
  CHECK(events::FinalReports::of(result).values.size() == 64);
}

TEST_CASE("a long text and a long list are cut in the record, and end in dots") {
  const TemporaryDirectory run;
  auto log = EventLog::open(run / "events.jsonl");
  REQUIRE(log.has_value());
  log->record(events::Started{.lead = std::string(100'000, 'x'),
                              .argv = std::vector<std::string>(100'000, "a word")});
  REQUIRE(log->drain(std::chrono::seconds(10)));
  const std::string text = content(run / "events.jsonl");
  CHECK(text.size() < 200'000);
  CHECK(text.find("\"...\"") != std::string::npos);
}
