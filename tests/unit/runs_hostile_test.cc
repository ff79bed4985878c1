// A run's directory may belong to another user. Whatever its files contain, reading them must not
// crash or hang, and the results must stay small.

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include <doctest/doctest.h>

#include "common/files.h"
#include "common/json_lines.h"
#include "launcher/report/run_report.h"
#include "launcher/runs/history.h"
#include "launcher/runs/last_words.h"
#include "launcher/runs/log_file.h"
#include "launcher/runs/ranks.h"
#include "launcher/runs/resolve.h"
#include "launcher/runs/run_name.h"
#include "launcher/runs/status.h"
#include "launcher/runs/sweep_record.h"
#include "tests/temporary_directory.h"
#include "tests/time_bounds.h"

using namespace dlrun;
using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

namespace {

constexpr const char* kRunFiles[] = {"submission.json", "claim",
                                     "attempt",         "origin",
                                     "ranks.json",      "surroundings.json",
                                     "sweep.json",      "plan.json",
                                     "provenance.json", "resolved.yaml",
                                     "job.sh",          "events.jsonl",
                                     "metrics.jsonl",   "resubmitted",
                                     "slurm-42.out",    "logs/attempt-0/rank-0000.log"};

std::string nested_brackets(std::size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

/// Creates the files of job 42, whose rank 0 failed.
void make_run(const fs::path& run) {
  const auto write = [&](const char* name, const std::string& text) {
    REQUIRE(make_private_directories((run / name).parent_path()).has_value());
    REQUIRE(write_file_atomic(run / name, text).has_value());
  };
  for (const char* name : kRunFiles) write(name, "{}\n");
  fs::remove(run / "sweep.json");
  write("submission.json", R"({"token":"00","state":"submitted","cluster":"","job":"42"})");
  write("claim", R"({"cluster":"","job":"42","token":"00"})");
  const std::string t = "2026-11-21T12:00:00.000Z";
  write("events.jsonl",
        to_checked_line({{"t", t}, {"event", "claimed"}, {"attempt", 0}, {"job", "42"}}) +
            to_checked_line(
                {{"t", t}, {"event", "rank_failed"}, {"attempt", 0}, {"rank", 0}, {"code", 1}}) +
            to_checked_line(
                {{"t", t}, {"event", "ended"}, {"attempt", 0}, {"state", "failed"}, {"code", 1}}));
}

/// Reads everything that status, report, logs, ls and sweep read of a run. Returns the size of the
/// results: bytes of text, points and rows. A sweep with over a million arrays adds 1 GiB, so that
/// the caller's check of the size fails.
std::size_t read_all(const fs::path& run) {
  std::size_t size = name_of_run(run).size();
  RunStatus status;
  if (auto facts = RunInspector::read_facts(run)) {
    status = assess(std::move(*facts));
    size += status.detail.size() + status.facts.record.result.size();
    for (const auto& line : last_words(run, status)) size += line.size();
    if (const auto log = job_log(run, status.facts)) {
      LogReader reader(*log, status.facts);
      if (const auto text = reader.read_more()) size += text->size();
    }
  }
  if (is_sweep(run)) {
    if (const auto sweep = read_sweep(run))
      size += sweep->points.size() + (sweep->array_count > 1'000'000 ? 1U << 30U : 0);
  }
  (void)current_run_of(run);
  if (const auto ranks = read_ranks(run); ranks && *ranks) size += (*ranks)->rows.size();
  const auto report = read_report({"id", "name", run, ""}, std::move(status));
  for (const auto& [name, value] : report.background) size += name.size() + value.size();
  for (const auto& [name, value] : report.result) size += name.size() + value.size();
  return size + report.spec.size() + report.script.size() + report.metrics.size();
}

/// Replaces each file of a run in turn with a file that `create` makes. Checks that the run is read
/// in a short time and with a small result.
void check_with_each_file_replaced(const std::function<void(const fs::path&)>& create) {
  for (const char* name : kRunFiles) {
    CAPTURE(std::string(name));
    const TemporaryDirectory run;
    make_run(run.path());
    fs::remove(run / name);
    create(run / name);
    const auto began = std::chrono::steady_clock::now();
    CHECK(read_all(run.path()) < 8U << 20U);
    CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(5));
  }
}

}  // namespace

TEST_CASE("100,000 nested brackets in any file of a run cause no crash") {
  check_with_each_file_replaced([](const fs::path& file) {
    REQUIRE(write_file_atomic(file, nested_brackets(100'000)).has_value());
  });
  check_with_each_file_replaced([](const fs::path& file) {
    REQUIRE(write_file_atomic(
                file, "{\"a\":" + nested_brackets(100'000) + ",\"state\":\"submitted\",\"rows\":" +
                          nested_brackets(100'000) + ",\"argv\":" + nested_brackets(100'000) + "}")
                .has_value());
  });
}

TEST_CASE("a result nested 100,000 deep with a valid checksum is ignored") {
  const TemporaryDirectory run;
  make_run(run.path());
  const auto text = read_file(run / "events.jsonl", 1U << 20U);
  const auto result =
      checked_line_of_text(R"({"t":"2026-11-21T12:00:00.000Z","event":"result","attempt":0,"a":)" +
                           nested_brackets(100'000) + "}");
  REQUIRE(write_file_atomic(run / "events.jsonl", result + *text).has_value());
  CHECK(read_all(run.path()) < 1U << 20U);
  const auto facts = RunInspector::read_facts(run.path());
  REQUIRE(facts.has_value());
  CHECK(facts->record.ended);
  CHECK(facts->record.damaged_lines == 1);
}

TEST_CASE("a FIFO in place of any file of a run makes no reader wait") {
  check_with_each_file_replaced(
      [](const fs::path& file) { REQUIRE(::mkfifo(file.c_str(), 0600) == 0); });
}

TEST_CASE("a link in place of any file of a run is not followed") {
  const TemporaryDirectory folder;
  REQUIRE(
      write_file_atomic(folder / "private",
                        R"({"message":"a private word","state":"refused","name":"a private word"})")
          .has_value());
  check_with_each_file_replaced([&](const fs::path& file) {
    fs::create_symlink(folder / "private", file);
    const auto facts = RunInspector::read_facts(file.parent_path());
    if (facts && facts->submission) CHECK(facts->submission->message.empty());
    CHECK(name_of_run(file.parent_path()) != "a private word");
  });
}

TEST_CASE("a sparse file of 2 GiB in place of any file of a run costs little time and memory") {
  check_with_each_file_replaced([](const fs::path& file) {
    REQUIRE(write_file_atomic(file, "{").has_value());
    REQUIRE(::truncate(file.c_str(), off_t{2} << 30) == 0);
  });
}

TEST_CASE("a sweep record with 2^63-1 arrays counts as damaged, and the arrays are not searched") {
  const TemporaryDirectory run;
  REQUIRE(
      write_file_atomic(
          run / "sweep.json",
          R"({"keys":[],"arrays":9223372036854775807,"points":[{"array":0,"task":0,"values":[]}]})")
          .has_value());
  CHECK(read_sweep(run.path()).error().code == Errc::kInvalid);
  const RunIndex index(run / "index");
  REQUIRE(index.add({"s-1", "s", run.path(), "2026-11-21T12:00:00.000Z"}).has_value());
  const auto began = std::chrono::steady_clock::now();
  CHECK_FALSE(resolve_run("4711", index, run.path()).has_value());
  CHECK(std::chrono::steady_clock::now() - began < wall_limit(std::chrono::seconds(2)));
}
