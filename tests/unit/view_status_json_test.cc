// Tests the JSON of runs, which cli/OUTPUT.md documents.

#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "launcher/executors/slurm_parse.h"
#include "launcher/view/status_json.h"
#include "tests/temporary_directory.h"

using namespace dlrun;
using Json = nlohmann::ordered_json;

namespace {

const IndexEntry kRun{"x-1", "x", "/no/such/run", "2026-01-01T00:00:00.000Z"};

/// Returns the facts of a run that Slurm reports as ended, while its record has no end.
RunFacts facts_of(const std::string& state, std::optional<int> exit_code, int signal) {
  RunFacts facts;
  facts.submission.emplace();
  facts.submission->state = Submission::State::kSubmitted;
  facts.submission->job = {"", "42"};
  facts.has_answer = true;
  facts.report.emplace();
  facts.report->job = {"", "42"};
  facts.report->phase = JobPhase::kEnded;
  facts.report->state = state;
  facts.report->exit_code = exit_code;
  facts.report->signal = signal;
  return facts;
}

/// Returns the exit code in the JSON of the run that has the facts of facts_of().
Json code_of(const std::string& state, std::optional<int> exit_code, int signal) {
  return status_json(kRun, assess(facts_of(state, exit_code, signal)))["code"];
}

}  // namespace

TEST_CASE("the exit code of a job that a signal ended is 128 plus the signal's number") {
  CHECK(code_of("FAILED", 0, 9) == 137);
  CHECK(code_of("CANCELLED", 0, 15) == 143);
  CHECK(code_of("FAILED", 0, 31) == 159);
  CHECK(code_of("FAILED", 3, 0) == 3);
  CHECK(code_of("COMPLETED", 0, 0) == 0);
}

TEST_CASE(
    "the exit code of a failed job is null if Slurm reports neither a code other than 0 nor a "
    "signal") {
  CHECK(code_of("NODE_FAIL", 0, 0).is_null());
  CHECK(code_of("TIMEOUT", 0, 0).is_null());
  CHECK(code_of("CANCELLED", std::nullopt, 0).is_null());
  for (const int number : {34, 53, 125}) {  // Slurm uses these, but they are no signals
    CAPTURE(number);
    CHECK(code_of("FAILED", 0, number).is_null());
  }
}

TEST_CASE("the exit code in a run's record takes precedence over Slurm's") {
  RunFacts facts = facts_of("FAILED", 0, 9);
  facts.record.has_events = true;
  facts.record.ended = true;
  facts.record.end_state = EndState::kFailed;
  facts.record.end_code = 3;
  CHECK(status_json(kRun, assess(facts))["code"] == 3);
}

TEST_CASE(
    "a run that has not ended has no exit code, also if an earlier start of its job has one") {
  for (const char* state : {"RUNNING", "PENDING"}) {
    CAPTURE(state);
    RunFacts facts = facts_of(state, 1, 9);
    facts.report->phase = phase_of(state);
    CHECK(status_json(kRun, assess(facts))["code"].is_null());
  }
}

TEST_CASE(
    "`point_counts` counts each state separately, and the detail counts timeouts and refusals as "
    "failed") {
  std::vector<Result<RunStatus>> points;
  for (const RunState state : {RunState::kFailed, RunState::kTimeout, RunState::kRefused,
                               RunState::kTimeout, RunState::kCompleted}) {
    RunStatus point;
    point.state = state;
    points.emplace_back(point);
  }
  const RunStatus sweep = sum_up_points(points);
  CHECK(sweep.state == RunState::kFailed);
  CHECK(sweep.detail == "5 points: 1 completed, 4 failed");
  const Json counts = status_json(kRun, sweep)["point_counts"];
  CHECK(counts["all"] == 5);
  CHECK(counts["completed"] == 1);
  CHECK(counts["failed"] == 1);
  CHECK(counts["timeout"] == 2);
  CHECK(counts["refused"] == 1);
  CHECK(status_json(kRun, RunStatus{})["point_counts"].is_null());
}

TEST_CASE(
    "the field `jobs` of a sweep lists the jobs of its points' latest runs, and the field `job` "
    "is null") {
  std::vector<Result<RunStatus>> points;
  for (const char* job : {"12_0", "12_1", "13_0", "40", ""}) {
    RunStatus point;
    point.job = {"", job};
    points.emplace_back(point);
  }
  const Json sweep = status_json(kRun, sum_up_points(points));
  CHECK(sweep["job"].is_null());
  CHECK(sweep["jobs"] == Json{"12", "13", "40"});
  // The first point of job 12 and the only point of job 13 were submitted again.
  points[0]->job.id = "50";
  points[2]->job.id = "51";
  CHECK(status_json(kRun, sum_up_points(points))["jobs"] == Json{"50", "12", "51", "40"});
  RunStatus single;
  single.job = {"", "42"};
  const Json run = status_json(kRun, single);
  CHECK(run["job"] == "42");
  CHECK(run["jobs"].is_null());
}

TEST_CASE("`allocation` is the job whose allocation a run uses, once lead has claimed the run") {
  RunFacts facts;
  facts.submission.emplace();
  facts.submission->state = Submission::State::kSubmitted;
  facts.submission->job = {"local", "here:12:345"};
  CHECK(status_json(kRun, assess(facts))["allocation"].is_null());
  facts.claim.emplace();
  facts.claim->job = {"alpine", "42"};
  CHECK(status_json(kRun, assess(facts))["allocation"] == "42");
  facts.claim->job = {"local", "here:12:345"};  // `dlrun run`
  CHECK(status_json(kRun, assess(facts))["allocation"].is_null());
}

TEST_CASE("keys that do not apply to a run are null") {
  RunStatus status;
  status.facts.record.first_failed.emplace();
  const Json json = status_json(kRun, status);
  for (const char* key :
       {"jobs", "allocation", "chain", "rehearsal", "components", "point_counts"}) {
    INFO(key);
    REQUIRE(json.contains(key));
    CHECK(json[key].is_null());
  }
  REQUIRE(json["first_failed"].contains("component"));
  CHECK(json["first_failed"]["component"].is_null());
}
