// Tests the reading of large records and indexes: its cost, and that the results are right.

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "common/files.h"
#include "common/json_lines.h"
#include "common/run_events.h"
#include "common/text.h"
#include "launcher/report/run_report.h"
#include "launcher/runs/entry_cache.h"
#include "launcher/runs/history.h"
#include "launcher/runs/index.h"
#include "launcher/runs/run_record.h"
#include "launcher/runs/summary_cache.h"
#include "tests/temporary_directory.h"
#include "tests/time_bounds.h"

using namespace dlrun;
using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

namespace {

std::string line_at(std::int64_t second, std::string_view event, Json fields) {
  Json object{{"t", utc_timestamp(std::chrono::system_clock::time_point(
                        std::chrono::seconds(1'790'000'000 + second)))},
              {"event", event},
              {"attempt", 0}};
  for (const auto& [key, value] : fields.items()) object[key] = value;
  return to_checked_line(object);
}

std::string first_events() {
  return line_at(0, "claimed", {{"job", "42"}, {"host", "n1"}}) +
         line_at(0, "joined", {{"ranks", 8}, {"hosts", "n[1-2]"}}) +
         line_at(1, "progress", {{"step", 0}, {"steps", 9'000'000}, {"epochs", 12}});
}

/// Writes a record whose progress events take at least `bytes` bytes, with `last_lines` at its end.
void write_record(const fs::path& path, std::size_t bytes, const std::string& last_lines) {
  std::ofstream file(path, std::ios::binary);
  file << first_events();
  std::string block;
  for (int i = 0; i < 5000; ++i)
    block += line_at(2 + i, "progress", {{"step", i}, {"loss", 0.25}, {"samples_per_s", 1234.5}});
  for (std::size_t written = 0; written < bytes; written += block.size()) file << block;
  file << last_lines;
}

double cpu_seconds() {
  struct timespec now {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Returns VmHWM or VmRSS of this process, in KiB.
long memory_kib(std::string_view field) {
  const auto status = read_file("/proc/self/status", 1U << 16U);
  for (const auto line : split(*status, '\n')) {
    if (line.starts_with(field))
      return static_cast<long>(
          parse_int(trim(split(trim(line.substr(6)), ' ').front())).value_or(0));
  }
  return 0;
}

/// Resets the peak of resident memory.
void reset_memory_peak() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

}  // namespace

TEST_CASE(
    "the summary of a record of 300 MiB includes its end, and takes less than half a second and 50 "
    "MiB") {
  const TemporaryDirectory run;
  const auto end = line_at(9'000'000, "progress", {{"step", 8'999'999}, {"loss", 0.125}}) +
                   line_at(9'000'001, "result", {{"test_accuracy", 0.75}}) +
                   line_at(9'000'002, "ended", {{"state", "completed"}, {"code", 0}});
  write_record(run / "events.jsonl", 300U << 20U, end);
  reset_memory_peak();
  const long before_kib = memory_kib("VmRSS:");
  const double began = cpu_seconds();
  const auto record = read_events(run.path());
  const double seconds = cpu_seconds() - began;
  const long grown_kib = memory_kib("VmHWM:") - before_kib;
  MESSAGE(seconds, " s, ", grown_kib, " KiB");
  CHECK(seconds < cpu_limit_s(0.4));
  CHECK(grown_kib < 50 << 10);
  REQUIRE(record.has_value());
  CHECK(record->ended);
  CHECK(record->end_state == EndState::kCompleted);
  CHECK(record->ranks == 8);
  REQUIRE(record->progress.has_value());
  CHECK(record->progress->step == 8'999'999);
  CHECK(record->progress->epochs == 12);  // reported once, at the beginning
  CHECK(record->left_out_bytes > 200 << 20);
}

TEST_CASE(
    "a record of the largest size that lead writes is read completely in less than half a second") {
  const TemporaryDirectory run;
  const auto restart = line_at(9'000'000, "restarting", {{"cause", "hang"}, {"left", 1}});
  write_record(run / "events.jsonl", 30U << 20U, restart);
  write_record(run / "more", 30U << 20U, "");
  const auto more = read_file(run / "more", 64U << 20U);
  std::ofstream(run / "events.jsonl", std::ios::app | std::ios::binary) << *more;
  REQUIRE(fs::file_size(run / "events.jsonl") < kLargestRecordBytes);
  const double began = cpu_seconds();
  const auto record = read_events(run.path());
  const double seconds = cpu_seconds() - began;
  MESSAGE(seconds, " s");
  CHECK(seconds < cpu_limit_s(0.4));
  REQUIRE(record.has_value());
  CHECK(record->restarts.size() == 1);  // the event in the middle
  CHECK(record->left_out_bytes == 0);
}

TEST_CASE("the curves of a large record have many points, with the first and the last one") {
  const TemporaryDirectory run;
  write_record(run / "events.jsonl", 300U << 20U,
               line_at(9'000'000, "progress", {{"step", 8'999'999}, {"loss", 0.5}}));
  const double began = cpu_seconds();
  RunHistory history;
  while (history.read_more(run.path()).value()) {
  }
  const double seconds = cpu_seconds() - began;
  MESSAGE(seconds, " s, ", history.progress().size(), " points");
  CHECK(seconds < cpu_limit_s(kWithSanitizer ? 4 : 2));
  CHECK(history.progress().size() > 1000);
  CHECK(history.progress().front().step == 0);
  CHECK(history.progress().back().step == 8'999'999);
  CHECK(history.record().progress->epochs == 12);
  CHECK(history.damaged_lines() == 1);  // the line at the border of the skipped part
}

TEST_CASE(
    "a history is read again from the start when lead has replaced the file with a compacted "
    "record") {
  const TemporaryDirectory run;
  write_record(run / "events.jsonl", 1U << 16U, "");
  RunHistory history;
  while (history.read_more(run.path()).value()) {
  }
  const auto before = history.progress().size();
  REQUIRE(write_file_atomic(run / "events.jsonl",
                            first_events() + std::string(1U << 21U, 'x') + "\n" +
                                line_at(7, "ended", {{"state", "failed"}, {"code", 1}}))
              .has_value());
  while (history.read_more(run.path()).value()) {
  }
  CHECK(before > 100);
  CHECK(history.progress().size() == 1);
  CHECK(history.record().ended);
}

TEST_CASE(
    "after the first listing, an index of 10,000 runs is listed from its cache file, with later "
    "changes") {
  const TemporaryDirectory folder;
  const RunIndex index(folder / "runs");
  fs::create_directories(folder / "runs");
  const auto file_of = [&](int i) { return folder / "runs" / fmt::format("r-{}", i); };
  for (int i = 0; i < 10'000; ++i) {
    std::ofstream(file_of(i)) << fmt::format(R"({{"id":"r-{0}","name":"r","path":"{1}/run-{0}",)"
                                             R"("created":"2026-11-21T12:{2:02}:{3:02}.{0:05}Z"}})",
                                             i, folder.path().string(), i / 60 % 60, i % 60);
  }
  REQUIRE(index.list()->entries.size() == 10'000);
  const double began = cpu_seconds();
  const auto listing = index.list();
  const double seconds = cpu_seconds() - began;
  MESSAGE(seconds, " s");
  CHECK(seconds < cpu_limit_s(0.1));
  REQUIRE(listing.has_value());
  CHECK(listing->entries.size() == 10'000);
  CHECK(listing->entries.front().path.filename().string().starts_with("run-"));

  fs::remove(file_of(17));
  REQUIRE(index.add({"new", "n", folder / "elsewhere", "2027-01-01T00:00:00.000Z"}).has_value());
  const auto changed = index.list();
  CHECK(changed->entries.size() == 10'000);
  CHECK(changed->entries.front().id == "new");
  for (const auto& entry : changed->entries) CHECK(entry.id != "r-17");
}

TEST_CASE("a history of twenty thousand warnings keeps the first and the last ones") {
  std::string lines = first_events();
  for (int i = 0; i < 20'000; ++i)
    lines += line_at(i, "warning", {{"message", "late"}, {"rank", i}, {"host", "n1"}});
  RunHistory history;
  history.add(lines);
  const auto& events = history.events();
  CHECK(events.size() >= 2000);
  CHECK(events.size() <= 3000);
  CHECK(events.size() + history.events_left_out() == 20'002);
  CHECK(events.front().kind == "claimed");
  CHECK(events.back().text == "late (rank 19999 on n1)");
}

TEST_CASE("a run that was moved is listed at its new path after a rebuild") {
  const TemporaryDirectory folder;
  const RunIndex index(folder / "index");
  for (int i = 0; i < 100; ++i)
    REQUIRE(index.add({fmt::format("r-{}", i), "r", folder / fmt::format("old/r-{}", i), ""})
                .has_value());
  REQUIRE(index.list()->entries.size() == 100);
  fs::remove(folder / "index/r-7");
  REQUIRE(fs::create_directories(folder / "new/r-7"));
  REQUIRE(write_file_atomic(folder / "new/r-7/claim", "{}").has_value());
  REQUIRE(index.add_missing_runs(folder / "new")->added_count == 1);
  const auto listing = index.list();
  REQUIRE(listing->entries.size() == 100);
  const auto moved = std::find_if(listing->entries.begin(), listing->entries.end(),
                                  [](const IndexEntry& entry) { return entry.id == "r-7"; });
  REQUIRE(moved != listing->entries.end());
  CHECK(moved->path == folder / "new/r-7");
}

TEST_CASE(
    "a summary of a run is valid only while its record is unchanged, and a summary with a tab is "
    "not kept") {
  const TemporaryDirectory folder;
  const RunIndex index(folder / "index");
  const IndexEntry run{"r-1", "r", folder / "r-1", ""};
  REQUIRE(index.add(run).has_value());
  fs::create_directories(run.path);
  REQUIRE(write_file_atomic(run.path / "events.jsonl", "one\n").has_value());
  struct stat info {};
  REQUIRE(::stat((run.path / "events.jsonl").c_str(), &info) == 0);
  {
    SummaryCache summaries = SummaryCache::in(index);
    CHECK_FALSE(summaries.find(run, info).has_value());
    summaries.add(run, info, {"42", RunState::kCompleted, "test_accuracy 0.9"});
    summaries.add({"r-2", "r", folder / "r-2", ""}, info, {"43", RunState::kFailed, "a\ttab"});
    summaries.save();
  }
  const SummaryCache summaries = SummaryCache::in(index);
  const auto row = summaries.find(run, info);
  REQUIRE(row.has_value());
  CHECK(row->state == RunState::kCompleted);
  CHECK(row->summary == "test_accuracy 0.9");
  CHECK_FALSE(summaries.find({"r-2", "r", folder / "r-2", ""}, info).has_value());
  std::ofstream(run.path / "events.jsonl", std::ios::app) << "two\n";  // the run was claimed again
  REQUIRE(::stat((run.path / "events.jsonl").c_str(), &info) == 0);
  CHECK_FALSE(summaries.find(run, info).has_value());
  CHECK(index.list()->entries.size() == 1);  // the file of summaries is no entry of the index
}
