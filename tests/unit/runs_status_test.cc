#include <doctest/doctest.h>

#include "common/files.h"
#include "common/json_lines.h"
#include "launcher/runs/log_file.h"
#include "launcher/runs/run_name.h"
#include "launcher/runs/status.h"
#include "tests/temporary_directory.h"

using namespace dlrun;
using Json = nlohmann::ordered_json;

namespace {

RunFacts facts_of_submitted_run() {
  RunFacts facts;
  facts.submission.emplace();
  facts.submission->state = Submission::State::kSubmitted;
  facts.submission->job = {"", "42"};
  facts.has_answer = true;
  return facts;
}

JobReport report(JobPhase phase, const char* state) {
  JobReport result;
  result.job = {"", "42"};
  result.phase = phase;
  result.state = state;
  return result;
}

RunRecord record(std::initializer_list<Json> events) {
  std::string text;
  for (const auto& event : events) text += to_checked_line(event);
  return sum_up_events(text);
}

const Json kClaimed = {{"event", "claimed"}, {"attempt", 0}, {"job", "42"}};

}  // namespace

TEST_CASE("the end in the run's record takes precedence over Slurm's state") {
  RunFacts facts = facts_of_submitted_run();
  facts.record = record({kClaimed,
                         {{"event", "ended"},
                          {"attempt", 0},
                          {"state", "failed"},
                          {"code", 137},
                          {"message", "rank 3 on n2 was ended by SIGKILL"}}});
  facts.report = report(JobPhase::kEnded, "COMPLETED");
  const auto status = assess(facts);
  CHECK(status.state == RunState::kFailed);
  CHECK(status.detail == "rank 3 on n2 was ended by SIGKILL");
}

TEST_CASE(
    "the status of a requeued, pending run shows the attempt that has ended, not a later one") {
  RunFacts facts = facts_of_submitted_run();
  facts.record = record({kClaimed,
                         {{"event", "restarting"}, {"attempt", 0}, {"cause", "timeout"}},
                         {{"event", "claimed"}, {"attempt", 1}, {"job", "42"}}});
  facts.report = report(JobPhase::kPending, "PENDING");
  CHECK(assess(facts).detail.starts_with("attempt 0 has ended (timeout); queued again"));
}

TEST_CASE("without an end in the record the run's state is Slurm's") {
  RunFacts facts = facts_of_submitted_run();
  facts.report = report(JobPhase::kPending, "PENDING");
  facts.report->reason = "Resources";
  CHECK(assess(facts).state == RunState::kPending);
  CHECK(assess(facts).detail.starts_with("Resources: it is next in line"));
  facts.report->start = "2026-11-22T03:00:00";
  CHECK(assess(facts).detail.ends_with("; expected start 2026-11-22T03:00:00"));
  facts.report->start.clear();
  facts.report->reason = "Dependency";
  CHECK(assess(facts).detail == "Dependency: it waits for other jobs");
  facts.submission->dependency = "afterok:12";
  CHECK(assess(facts).detail == "Dependency: it waits for afterok:12");
  facts.report = report(JobPhase::kRunning, "RUNNING");
  CHECK(assess(facts).state == RunState::kRunning);
  facts.report = report(JobPhase::kRunning, "COMPLETING");
  CHECK(assess(facts).detail == "its processes have ended or are being ended (COMPLETING)");
  facts.report = report(JobPhase::kEnded, "TIMEOUT");
  CHECK(assess(facts).state == RunState::kTimeout);
  CHECK(assess(facts).detail.find("time limit") != std::string::npos);
  facts.report = report(JobPhase::kEnded, "CANCELLED");
  CHECK(assess(facts).state == RunState::kCancelled);
}

TEST_CASE(
    "after `dlrun cancel` the status says that the run was cancelled with this command, unless a "
    "rank failed first") {
  const std::string by_command = "it was cancelled with `dlrun cancel`";
  RunFacts facts = facts_of_submitted_run();
  facts.has_cancel_mark = true;
  CHECK(assess(facts).state == RunState::kCancelled);
  CHECK(assess(facts).detail == by_command + " before it started");
  facts.report = report(JobPhase::kRunning, "COMPLETING");
  CHECK(assess(facts).detail == by_command + ", and its processes are being ended");
  facts.report = report(JobPhase::kEnded, "CANCELLED");
  CHECK(assess(facts).detail == by_command);
  const auto record_with_end = [](const char* reason, const char* message) {
    return record({kClaimed,
                   {{"event", "attempt_end"},
                    {"attempt", 0},
                    {"reason", reason},
                    {"first_failed", {{"rank", 1}, {"host", "n1"}, {"code", 1}}}},
                   {{"event", "ended"},
                    {"attempt", 0},
                    {"state", "cancelled"},
                    {"code", 143},
                    {"message", message}}});
  };
  facts.record = record_with_end("signalled", "ended by SIGTERM, which reached rank 1 on n1");
  CHECK(assess(facts).state == RunState::kCancelled);
  CHECK(assess(facts).detail == by_command);
  facts.has_cancel_mark = false;  // as after scancel
  const std::string message = "ended by SIGTERM, which reached rank 1 on n1";
  CHECK(assess(facts).detail ==
        message +
            "; not by `dlrun cancel`, so probably by scancel, an administrator or a preemption");
  facts.submission->task = 0;  // a point: `dlrun cancel` marks only the array
  CHECK(assess(facts).detail == message);
  facts.submission->task.reset();
  facts.submission->job.cluster = kLocalCluster;  // as after Ctrl-C
  CHECK(assess(facts).detail == message);
  facts.submission->job.cluster.clear();
  facts.has_cancel_mark = true;
  facts.record = record_with_end("rank_failed", "rank 1 on n1 ended with code 1");
  CHECK(assess(facts).detail == "rank 1 on n1 ended with code 1");
}

TEST_CASE("while nodes are checked, status says so") {
  RunFacts facts = facts_of_submitted_run();
  facts.report = report(JobPhase::kRunning, "RUNNING");
  Json started = {{"event", "started"}, {"attempt", 0}, {"ranks", 0}};
  facts.record = record({kClaimed, started});
  CHECK(assess(facts).detail == "waiting for the ranks to join");
  started["checks"] = "gpu,disk";
  facts.record = record({kClaimed, started});
  CHECK(assess(facts).detail == "the nodes are checked (gpu,disk) before the ranks join");
  facts.record = record({kClaimed, started, {{"event", "joined"}, {"attempt", 0}, {"ranks", 2}}});
  CHECK(assess(facts).detail.empty());
  started["checks"] = "disk,nccl";
  facts.record = record({kClaimed, started, {{"event", "joined"}, {"attempt", 0}, {"ranks", 2}}});
  CHECK(assess(facts).detail == "the ranks try a collective (nccl) before the programs start");
  facts.record = record({kClaimed,
                         started,
                         {{"event", "joined"}, {"attempt", 0}, {"ranks", 2}},
                         {{"event", "checked"}, {"attempt", 0}}});
  CHECK(assess(facts).detail.empty());
}

TEST_CASE("while nodes copy their data, status says so") {
  RunFacts facts = facts_of_submitted_run();
  facts.report = report(JobPhase::kRunning, "RUNNING");
  const Json started = {{"event", "started"}, {"attempt", 0}, {"ranks", 0}};
  const Json staging = {{"event", "staging"}, {"attempt", 0}, {"nodes", 2}};
  facts.record = record({kClaimed, started, staging});
  CHECK(assess(facts).detail == "staging: 2 nodes copy data before the programs start (stage)");
  facts.record = record({kClaimed,
                         started,
                         staging,
                         {{"event", "staged"}, {"attempt", 0}, {"nodes", 2}},
                         {{"event", "joined"}, {"attempt", 0}, {"ranks", 2}}});
  CHECK(assess(facts).detail.empty());
}

TEST_CASE(
    "the state of a run without an end in its record is unknown if Slurm no longer knows its job") {
  RunFacts facts = facts_of_submitted_run();
  facts.why_no_accounting = "Slurm accounting storage is disabled";
  facts.record = record({kClaimed, {{"event", "joined"}, {"attempt", 0}, {"ranks", 8}}});
  const auto status = assess(facts);
  CHECK(status.state == RunState::kUnknown);
  CHECK(status.detail.find("accounting storage is disabled") != std::string::npos);
}

TEST_CASE(
    "if the controller cannot be reached, status shows the last known state and marks it as such") {
  RunFacts facts = facts_of_submitted_run();
  facts.has_answer = false;
  facts.why_unreachable = "nobody answers";
  CHECK(assess(facts).state == RunState::kPending);
  CHECK(assess(facts).may_be_outdated);
  facts.record = record({kClaimed});
  CHECK(assess(facts).state == RunState::kRunning);
  CHECK(assess(facts).may_be_outdated);
}

TEST_CASE(
    "a run without a job id is not_submitted, pending during its submission, or unknown without "
    "Slurm's answer") {
  RunFacts facts;
  facts.submission.emplace();
  CHECK(assess(facts).state == RunState::kNotSubmitted);
  CHECK(assess(facts).detail.find("Slurm knows no job of it") != std::string::npos);
  facts.submission->job.cluster = kLocalCluster;
  CHECK(assess(facts).detail == "its start on this machine was interrupted; start it again");
  facts.submission->job.cluster.clear();
  facts.is_being_submitted = true;
  CHECK(assess(facts).state == RunState::kPending);
  CHECK(is_submission_open(assess(facts)));
  facts.why_unreachable = "nobody answers";
  CHECK(assess(facts).state == RunState::kPending);
  CHECK(assess(facts).may_be_outdated);
  facts.is_being_submitted = false;
  CHECK(assess(facts).state == RunState::kUnknown);
  CHECK(assess(facts).may_be_outdated);
  CHECK(is_submission_open(assess(facts)));
  facts.why_unreachable.clear();
  CHECK_FALSE(is_submission_open(assess(facts)));
  CHECK_FALSE(is_submission_open(assess(facts_of_submitted_run())));
}

TEST_CASE("the status of a refused submission quotes Slurm") {
  RunFacts facts;
  facts.submission.emplace();
  facts.submission->state = Submission::State::kRefused;
  facts.submission->message = "Invalid partition name specified";
  CHECK(assess(facts).state == RunState::kRefused);
  CHECK(assess(facts).detail == "Invalid partition name specified");
}

TEST_CASE(
    "a run whose script was submitted by hand has the job id of its claim, without the cluster") {
  RunFacts facts;
  facts.claim = Claim{{"testbed", "42"}, "", ""};
  const auto job = job_of(facts);
  REQUIRE(job.has_value());
  CHECK(job->id == "42");
  CHECK(job->cluster.empty());
}

TEST_CASE(
    "the name and the log of a run whose script was submitted by hand are those in lead's files") {
  TemporaryDirectory folder;
  const auto run = folder.path() / "hello-4";
  REQUIRE(make_private_directories(run).has_value());
  RunFacts facts;
  facts.claim = Claim{{"testbed", "4"}, "", ""};
  CHECK(name_of_run(run) == "hello-4");
  CHECK(job_log(run, facts) == run / "slurm-4.out");
  REQUIRE(write_file_atomic(run / "origin", R"({"name":"hello"})").has_value());
  CHECK(name_of_run(run) == "hello");
  facts.claim->log = "/scratch/hello-4.out";
  CHECK(job_log(run, facts) == "/scratch/hello-4.out");
}

TEST_CASE("a log whose name only Slurm can fill in is unknown until the job's claim has the name") {
  RunFacts facts;
  facts.submission = Submission{};
  facts.submission->job = {"", "42"};
  CHECK(job_log("/runs/a", facts) == "/runs/a/slurm-42.out");
  facts.submission->log_pattern = absolute_pattern("/home/100%/w", "out/%x-%j.txt", "my %j job");
  CHECK(facts.submission->log_pattern == "/home/100%%/w/out/my %%j job-%j.txt");
  CHECK(job_log("/runs/a", facts) == "/home/100%/w/out/my %j job-42.txt");
  for (const char* pattern : {"/x/%x-%j-%N.txt", "/x/%4j.txt", "/x/%x"}) {
    facts.submission->log_pattern = absolute_pattern("/w", pattern, std::nullopt);
    CHECK(facts.submission->log_pattern == pattern);
    CHECK_FALSE(job_log("/runs/a", facts).has_value());
    facts.claim = Claim{{"", "42"}, "", "/x/0042.txt"};
    CHECK(job_log("/runs/a", facts) == "/x/0042.txt");
    facts.claim.reset();
  }
}

TEST_CASE("a run is over only if its state is final, and not merely the last known state") {
  const auto is_over_in = [](RunState state, bool may_be_outdated = false) {
    RunStatus status;
    status.state = state;
    status.may_be_outdated = may_be_outdated;
    return is_over(status);
  };
  for (const RunState state : {RunState::kCompleted, RunState::kFailed, RunState::kTimeout,
                               RunState::kCancelled, RunState::kRefused}) {
    CHECK(is_over_in(state));
    CHECK_FALSE(is_over_in(state, true));
  }
  for (const RunState state :
       {RunState::kNotSubmitted, RunState::kPending, RunState::kRunning, RunState::kUnknown})
    CHECK_FALSE(is_over_in(state));
}

TEST_CASE(
    "the description of a failed rank has its number, its host, and its signal or exit code") {
  RankFailure failure;
  failure.rank = 3;
  failure.host = "n2";
  failure.code = 137;
  failure.signal = "SIGKILL";
  CHECK(describe(failure) == "rank 3 on n2 was ended by SIGKILL");
  failure.signal.clear();
  failure.code = 2;
  failure.error = "no such file";
  CHECK(describe(failure) == "rank 3 on n2 ended with code 2 (no such file)");
  failure.component = "server";
  CHECK(describe(failure) == "component server: rank 3 on n2 ended with code 2 (no such file)");
}

TEST_CASE("the status of a running job names the components that are not ready") {
  RunFacts facts = facts_of_submitted_run();
  facts.report = report(JobPhase::kRunning, "RUNNING");
  facts.record.has_events = true;
  facts.record.components = {
      {.name = "server", .role = ComponentRole::kService, .state = ComponentState::kJoined},
      {.name = "trainer", .role = ComponentRole::kMain}};
  CHECK(assess(facts).detail == "component server is joined, component trainer is waiting");
  for (auto& one : facts.record.components) one.state = ComponentState::kReady;
  CHECK(assess(facts).detail.empty());
}

TEST_CASE("the status of a job whose dependency can never be satisfied names the dependency") {
  RunFacts facts = facts_of_submitted_run();
  facts.report = report(JobPhase::kEnded, "CANCELLED");
  facts.report->reason = "DependencyNeverSatisfied";
  facts.report->failed_dependencies = {"afterok:4"};
  CHECK(assess(facts).state == RunState::kCancelled);
  CHECK(assess(facts).detail ==
        "CANCELLED: it waited for afterok:4, which can no longer be fulfilled");
  facts.report->failed_dependencies.clear();
  CHECK(assess(facts).detail ==
        "CANCELLED: it waited for a dependency, which can no longer be fulfilled");
  facts.report->reason.clear();
  CHECK(assess(facts).detail == "CANCELLED: it was cancelled");
  facts.submission->dependency = "afterok:4";
  CHECK(assess(facts).detail == "CANCELLED: it was cancelled; its dependency was afterok:4");
  facts.report = report(JobPhase::kPending, "PENDING");
  facts.report->reason = "DependencyNeverSatisfied";
  facts.report->failed_dependencies = {"afterok:4", "afterok:5"};
  CHECK(assess(facts).detail ==
        "DependencyNeverSatisfied: it waits for afterok:4, afterok:5, which can no longer be "
        "fulfilled; cancel it, and submit it again");
}
