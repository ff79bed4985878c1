#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "cli/terminal/status_text.h"
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

TEST_CASE("status names the error file of a job, unless it is the file with the output") {
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
  record.restarts.back().left = 0;
  CHECK(shown(run, status).find("after node_failure; no restart left") != std::string::npos);
  record.ended = true;
  CHECK(shown(run, status).find("left") == std::string::npos);
}

TEST_CASE(
    "status of a run that timed out without a warning or a restart names the keys that let a run "
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
  record.was_warned = true;
  CHECK_FALSE(has_hint());
  record.was_warned = false;
  record.restarts = {{0, "timeout", 0}};
  CHECK_FALSE(has_hint());
  status.state = RunState::kFailed;
  record.restarts.clear();
  CHECK_FALSE(has_hint());
}

}  // namespace dlrun
