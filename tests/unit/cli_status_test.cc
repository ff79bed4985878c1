#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "cli/terminal/status_text.h"
#include "launcher/view/run_text.h"
#include "tests/contains.h"
#include "tests/temporary_directory.h"

namespace dlrun {
namespace {

std::string shown(const IndexEntry& run, const RunStatus& status) {
  return status_text(run, status).plain();
}

}  // namespace

TEST_CASE("status of a local run shows no log if the file of the log does not exist") {
  RunStatus status;
  status.job = {std::string(kLocalCluster), "host:1:2"};
  status.facts.submission.emplace().job = status.job;
  const IndexEntry run{"x-1", "x", "/no/such/run", ""};
  CHECK(shown(run, status).find("local.out") == std::string::npos);
  status.job = status.facts.submission->job = {"", "42"};
  CHECK(shown(run, status).find("slurm-42.out") != std::string::npos);  // Slurm will create it
}

TEST_CASE("status shows the host and the process of a local run") {
  RunStatus status;
  const IndexEntry run{"x-1", "x", "/no/such/run", ""};
  status.job = {std::string(kLocalCluster), "n1:4711:123456"};
  CHECK(has(shown(run, status), "  (on n1, process 4711)"));
  status.job = {"", "42"};
  CHECK(has(shown(run, status), "  (job 42)"));
}

TEST_CASE("status shows only existing logs and stacks of a run that has ended") {
  const TemporaryDirectory folder;
  const IndexEntry run{"x-1", "x", folder.path(), ""};
  RunStatus status;
  status.job = status.facts.submission.emplace().job = {"", "42"};
  status.facts.submission->error_pattern = (folder / "%j.err").string();
  status.facts.record.has_events = true;
  status.facts.record.autopsy.emplace();
  const std::filesystem::path paths[] = {folder / "slurm-42.out", folder / "42.err",
                                         folder / "logs" / "attempt-0",
                                         folder / "autopsy" / "attempt-0"};
  status.state = RunState::kRunning;
  for (const auto& path : paths) CHECK(has(shown(run, status), path.string()));
  status.state = RunState::kFailed;
  for (const auto& path : paths) CHECK_FALSE(has(shown(run, status), path.string()));
  for (const auto& path : paths) std::filesystem::create_directories(path);
  for (const auto& path : paths) CHECK(has(shown(run, status), path.string()));
}

TEST_CASE("status shows the error file of a job, unless it is the file with the output") {
  RunStatus status;
  Submission& submission = status.facts.submission.emplace();
  status.job = submission.job = {"", "42"};
  const IndexEntry run{"x-1", "x", "/no/such/run", ""};
  CHECK(shown(run, status).find("error log") == std::string::npos);
  submission.error_pattern = "/there/%j.err";
  CHECK(shown(run, status).find("error log /there/42.err") != std::string::npos);
  submission.log_pattern = submission.error_pattern;
  CHECK(shown(run, status).find("error log") == std::string::npos);
}

TEST_CASE(
    "between two attempts, status shows the next one, and a run that has not ended shows how many "
    "restarts are left") {
  RunStatus status;
  status.state = RunState::kPending;
  RunRecord& record = status.facts.record;
  record.has_events = true;
  record.restarts = {{0, "node_failure", 2}};
  const IndexEntry run{"x-1", "x", "/x", ""};
  CHECK(shown(run, status).find("1 is next, after node_failure; at most 2 restarts left") !=
        std::string::npos);
  record.attempt = 1;
  CHECK(shown(run, status).find("attempt   1, after node_failure; at most 2") != std::string::npos);
  record.restarts.back().restarts_left = 0;
  CHECK(shown(run, status).find("after node_failure; no restart left") != std::string::npos);
  record.ended = true;
  CHECK(shown(run, status).find("left") == std::string::npos);
}

TEST_CASE(
    "status of a run that timed out without a warning or a restart shows the keys that let a run "
    "continue") {
  RunStatus status;
  status.state = RunState::kTimeout;
  RunRecord& record = status.facts.record;
  record.has_events = true;
  const IndexEntry run{"x-1", "x", "/x", ""};
  const auto has_hint = [&] {
    return shown(run, status).find("with checkpoint.signal_before and retry") != std::string::npos;
  };
  CHECK(has_hint());
  CHECK(has(shown(run, status), "`dlrun explain retry`"));
  record.was_warned = true;
  CHECK_FALSE(has_hint());
  record.was_warned = false;
  record.restarts = {{0, "timeout", 0}};
  CHECK_FALSE(has_hint());
  status.state = RunState::kFailed;
  record.restarts.clear();
  CHECK_FALSE(has_hint());
}

TEST_CASE("status shows the error of the first failed rank once, and its exit code") {
  const IndexEntry run{"x-1", "x", "/x", ""};
  RunStatus status;
  status.state = RunState::kFailed;
  status.detail = "rank 1 on n1: pyhton3: command not found; dlrun ends the other rank";
  status.detail_shows_failed_rank = true;
  RunRecord& record = status.facts.record;
  record.attempt_end_reason = EndReason::kRankFailed;
  record.first_failed = RankFailure{1, "n1", 127, "", "pyhton3: command not found"};
  CHECK(has(shown(run, status), "failed    rank 1 on n1 ended with code 127\n"));
  status.detail_shows_failed_rank = false;
  CHECK(has(shown(run, status), "ended with code 127 (pyhton3: command not found)"));
  status.detail_shows_failed_rank = true;
  record.attempt_end_reason = EndReason::kHang;
  CHECK(has(shown(run, status), "ended with code 127 (pyhton3: command not found)"));
}

TEST_CASE("the sentence on a run that failed or timed out has the command that shows more") {
  const IndexEntry run{"x-1", "x", "/x", ""};
  RunStatus status;
  for (const RunState state : {RunState::kFailed, RunState::kTimeout}) {
    status.state = state;
    CHECK(has(end_text(run, status), "; `dlrun status x-1` shows more"));
  }
  status.state = RunState::kCancelled;
  CHECK_FALSE(has(end_text(run, status), "shows more"));
}

}  // namespace dlrun
