// Tests the feed that keeps the overview of `dlrun top` up to date.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "common/env.h"
#include "common/files.h"
#include "common/json_lines.h"
#include "launcher/runs/journal.h"
#include "launcher/runs/status.h"
#include "launcher/runs/sweep_record.h"
#include "launcher/view/run_feed.h"
#include "tests/temporary_directory.h"

using namespace dlrun;
namespace fs = std::filesystem;

namespace {

/// A run with job 42. The script `squeue` prints the file `queue`, and adds an empty line to the
/// file `calls`.
struct RunOfOneJob {
  TemporaryDirectory folder;
  Env env;
  fs::path run = folder / "run";
  RunOfOneJob() {
    set_state("PENDING");
    std::ofstream(folder / "squeue") << "#!/bin/sh\necho >>" << (folder / "calls").string()
                                     << "\ncat " << (folder / "queue").string() << "\n";
    std::ofstream(folder / "sacct") << "#!/bin/sh\n";
    for (const char* name : {"squeue", "sacct"})
      fs::permissions(folder / name, fs::perms::owner_all);
    fs::create_directories(run);
    fs::create_directory(folder / "runtime");
    fs::permissions(folder / "runtime", fs::perms::owner_all);
    env.set("PATH", folder.path().string() + ":/usr/bin:/bin");
    env.set("XDG_RUNTIME_DIR", (folder / "runtime").string());
    Submission submission;
    submission.token = std::string(32, 'a');
    submission.state = Submission::State::kSubmitted;
    submission.job = {"", "42"};
    REQUIRE(write_submission(run, submission).has_value());
  }
  void set_state(const std::string& state) const {
    REQUIRE(write_file_atomic(folder / "queue", "42|" + state + "|BeginTime|n1|N/A|(null)|(null)\n")
                .has_value());
  }
  void add_event(const nlohmann::ordered_json& event) const {
    std::ofstream(run / "events.jsonl", std::ios::app) << to_checked_line(event);
  }
  [[nodiscard]] std::size_t call_count() const {
    const auto text = read_file(folder / "calls", 100'000);
    return text ? text->size() : 0;
  }
};

bool holds_within(std::chrono::seconds limit, const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return true;
}

}  // namespace

TEST_CASE_FIXTURE(RunOfOneJob,
                  "after a new attempt in the record, the feed queries Slurm instead of using the "
                  "previous answer") {
  add_event({{"event", "claimed"}, {"attempt", 0}, {"job", "42"}});
  add_event({{"event", "restarting"}, {"attempt", 0}, {"cause", "timeout"}, {"by", "slurm"}});
  IndexEntry entry;
  entry.path = run;
  auto first = read_overview(env, {}, entry);
  REQUIRE(first.has_value());
  REQUIRE(first->status.state == RunState::kPending);
  const RunFeed feed(env, {}, std::move(*first));
  // After its fourth query the feed may use answers that are up to 6 s old, and queries again
  // after 8 s.
  REQUIRE(holds_within(std::chrono::seconds(20), [&] { return call_count() >= 4; }));

  set_state("RUNNING");
  add_event({{"event", "claimed"}, {"attempt", 1}, {"job", "42"}});
  CHECK(holds_within(std::chrono::seconds(4),
                     [&] { return feed.overview()->status.state == RunState::kRunning; }));
}

TEST_CASE_FIXTURE(
    RunOfOneJob,
    "after the start of a pending point of a sweep, the feed queries Slurm instead of "
    "using the previous answer") {
  SweepRecord sweep;
  sweep.keys = {"train.lr"};
  sweep.points = {{0, 0, {"0.1"}}, {0, 1, {"0.2"}}};
  sweep.array_count = 1;
  REQUIRE(write_file_atomic(run / "sweep.json", sweep_json(sweep)).has_value());
  Submission array;
  array.token = std::string(32, 'b');
  array.state = Submission::State::kSubmitted;
  array.job = {"", "42"};
  for (const std::size_t task : {0, 1}) {
    const auto point = run / "array-0" / std::to_string(task);
    fs::create_directories(point);
    REQUIRE(write_file_atomic(point / "submission.json", journal_of_task(task)).has_value());
  }
  REQUIRE(write_submission(run / "array-0", array).has_value());
  const auto set_states = [&](const std::string& first, const std::string& second) {
    const std::string end = "|None|n1|N/A|(null)|(null)\n";
    REQUIRE(write_file_atomic(folder / "queue", "42_0|" + first + end + "42_1|" + second + end)
                .has_value());
  };
  const auto claim = [&](const char* point, const char* job) {
    std::ofstream(run / "array-0" / point / "events.jsonl")
        << to_checked_line({{"event", "claimed"}, {"attempt", 0}, {"job", job}});
  };
  set_states("RUNNING", "PENDING");
  claim("0", "42_0");
  IndexEntry entry;
  entry.path = run;
  auto first = read_overview(env, {}, entry);
  REQUIRE(first.has_value());
  REQUIRE(first->points != nullptr);
  REQUIRE(first->points->size() == 2);
  REQUIRE(first->points->at(1).state == RunState::kPending);
  const RunFeed feed(env, {}, std::move(*first));
  REQUIRE(holds_within(std::chrono::seconds(20), [&] { return call_count() >= 4; }));

  set_states("RUNNING", "RUNNING");
  claim("1", "42_1");
  CHECK(holds_within(std::chrono::seconds(4),
                     [&] { return feed.overview()->points->at(1).state == RunState::kRunning; }));
}
