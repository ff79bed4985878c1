#include <string>

#include <doctest/doctest.h>

#include "cli/terminal/status_text.h"

namespace dlrun {
namespace {

std::string shown(const IndexEntry& run, const RunStatus& status) {
  return status_text(run, status).plain();
}

}  // namespace

TEST_CASE("status shows no log for a run on this machine whose log does not exist") {
  RunStatus status;
  status.job = {std::string(kLocalCluster), "host:1:2"};
  status.facts.submission.emplace().job = status.job;
  const IndexEntry run{"x-1", "x", "/no/such/run", ""};
  CHECK(shown(run, status).find("local.out") == std::string::npos);
  status.job = status.facts.submission->job = {"", "42"};
  CHECK(shown(run, status).find("slurm-42.out") != std::string::npos);  // Slurm will create it
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

TEST_CASE("between two attempts status shows the number of the next attempt") {
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

}  // namespace dlrun
