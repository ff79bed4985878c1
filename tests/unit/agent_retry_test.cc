// Tests when a run starts again: the decision, the history on which it is based, Slurm's reports
// about jobs and nodes, and the watch for hangs.
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "common/json_lines.h"
#include "runtime/agent/controller.h"
#include "runtime/agent/hang_watch.h"
#include "runtime/agent/retry.h"

namespace dlrun::agent {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::seconds;

RetryOptions options_for_any_cause(int max, int no_progress = 3) {
  RetryOptions options;
  options.max = max;
  options.no_progress = no_progress;
  options.on = *parse_causes("timeout,preemption,node_failure,hang,oom,failure");
  return options;
}

/// Adds attempts until decide_retry() refuses a restart or `steps` ends. Returns the number of
/// attempts.
/// steps: the last step that each attempt reported; std::nullopt if it reported none.
int count_attempts(const RetryOptions& options,
                   const std::vector<std::optional<std::int64_t>>& steps, Cause cause,
                   bool no_step_means_no_progress = false) {
  RetryHistory history;
  int attempts = 0;
  for (const auto& step : steps) {
    ++attempts;
    history.add_attempt(step, cause, no_step_means_no_progress);
    if (!decide_retry(options, history, cause).grants_restart) return attempts;
    history.add_restart();
  }
  return attempts;
}

std::string record_text(const std::vector<Json>& events) {
  std::string text;
  for (const auto& event : events) text += to_checked_line(event);
  return text;
}

TEST_CASE("without a budget a run does not start again, and no reason is given") {
  RetryHistory history;
  history.add_attempt(5, Cause::kFailure);
  const auto decision = decide_retry({}, history, Cause::kFailure);
  CHECK_FALSE(decision.grants_restart);
  CHECK(decision.why.empty());
}

TEST_CASE("memory grows by its factor, rounded up, to at most its limit") {
  RetryOptions options;
  CHECK_FALSE(grown_memory(options, 1000).has_value());
  options.memory_factor = 1.5;
  options.memory_limit_mib = 2000;
  CHECK(grown_memory(options, 1000) == 1500);
  CHECK(grown_memory(options, 1001) == 1502);
  CHECK(grown_memory(options, 1500) == 2000);
  CHECK(grown_memory(options, 1999) == 2000);
  CHECK_FALSE(grown_memory(options, 2000).has_value());
  CHECK_FALSE(grown_memory(options, 4000).has_value());
  CHECK_FALSE(grown_memory(options, 0).has_value());
}

TEST_CASE("the requested memory of a job is that of a node or of a CPU, in any of Slurm's units") {
  const auto memory = [](const char* text) {
    const auto facts = parse_job(text, 0);
    return std::pair(facts.memory_mib, facts.has_memory_per_cpu);
  };
  CHECK(memory("   MinCPUsNode=2 MinMemoryNode=500M MinTmpDiskNode=0") ==
        std::pair(std::int64_t{500}, false));
  CHECK(memory("MinMemoryNode=64G x=1") == std::pair(std::int64_t{65536}, false));
  CHECK(memory("MinMemoryNode=1.50G x=1") == std::pair(std::int64_t{1536}, false));
  CHECK(memory("MinMemoryCPU=2T x=1") == std::pair(std::int64_t{2} << 20, true));
  CHECK(memory("MinMemoryNode=0 x=1") == std::pair(std::int64_t{0}, false));
  CHECK(memory("MinMemoryNode=much x=1") == std::pair(std::int64_t{0}, false));
  CHECK(memory("JobId=7") == std::pair(std::int64_t{0}, false));
}

TEST_CASE(
    "each restart reduces the budget by one, and the decision says how many restarts are left") {
  RetryHistory history;
  history.add_attempt(10, Cause::kNodeFailure);
  auto decision = decide_retry(options_for_any_cause(2), history, Cause::kNodeFailure);
  CHECK(decision.grants_restart);
  CHECK(decision.left == 1);
  history.add_restart();
  history.add_attempt(20, Cause::kTimeout);
  decision = decide_retry(options_for_any_cause(2), history, Cause::kTimeout);
  CHECK(decision.grants_restart);
  CHECK(decision.left == 0);
  history.add_restart();
  history.add_attempt(30, Cause::kTimeout);
  decision = decide_retry(options_for_any_cause(2), history, Cause::kTimeout);
  CHECK_FALSE(decision.grants_restart);
  CHECK(decision.why == "it has already restarted 2 times (retry.max)");
}

TEST_CASE("a cause that retry.on does not list ends the run, and the reason quotes the cause") {
  auto options = options_for_any_cause(3);
  options.on = {Cause::kTimeout, Cause::kHang};
  RetryHistory history;
  history.add_attempt(1, Cause::kFailure);
  CHECK(decide_retry(options, history, Cause::kFailure).why == "'failure' is not in retry.on");
  CHECK(decide_retry(options, history, Cause::kHang).grants_restart);
  CHECK_FALSE(decide_retry(options, history, Cause::kNone).grants_restart);
}

TEST_CASE(
    "a job that always fails before its first step stops after retry.no_progress attempts, however "
    "large the budget is") {
  const std::vector<std::optional<std::int64_t>> no_steps(50);
  CHECK(count_attempts(options_for_any_cause(1000), no_steps, Cause::kFailure, true) == 3);
  CHECK(count_attempts(options_for_any_cause(1000, 1), no_steps, Cause::kFailure, true) == 1);
  CHECK(count_attempts(options_for_any_cause(1000), no_steps, Cause::kOom, true) == 3);
  // The budget is used up first.
  CHECK(count_attempts(options_for_any_cause(1), no_steps, Cause::kFailure, true) == 2);
  // A node failure is not the program's fault.
  CHECK(count_attempts(options_for_any_cause(20), no_steps, Cause::kNodeFailure, true) == 21);
}

TEST_CASE(
    "a program that never reports a step may use its whole budget, because its progress is "
    "unknown") {
  const std::vector<std::optional<std::int64_t>> no_steps(50);
  for (const auto cause : {Cause::kFailure, Cause::kOom, Cause::kHang})
    CHECK(count_attempts(options_for_any_cause(20), no_steps, cause) == 21);
  RetryHistory history;
  history.add_attempt({}, Cause::kFailure);
  CHECK_FALSE(
      decide_retry(options_for_any_cause(20, 1), history, Cause::kFailure).next_needs_progress);
}

TEST_CASE(
    "the decision to restart says whether the next attempt is the last one unless it makes "
    "progress") {
  RetryHistory history;
  history.add_attempt(10, Cause::kFailure);
  CHECK_FALSE(
      decide_retry(options_for_any_cause(20), history, Cause::kFailure).next_needs_progress);
  history.add_attempt(10, Cause::kFailure);
  history.add_attempt(9, Cause::kFailure);
  const auto decision = decide_retry(options_for_any_cause(20), history, Cause::kFailure);
  CHECK(decision.grants_restart);
  CHECK(decision.next_needs_progress);
}

TEST_CASE(
    "an attempt without a reported step is fruitless if ranks did not join or steps were "
    "expected") {
  std::vector<Json> events;
  for (int attempt = 0; attempt < 3; ++attempt) {
    events.push_back({{"event", "started"}, {"attempt", attempt}});
    if (attempt == 0) events.push_back({{"event", "joined"}, {"attempt", attempt}, {"ranks", 2}});
    events.push_back(
        {{"event", "attempt_end"}, {"attempt", attempt}, {"code", 77}, {"cause", "failure"}});
  }
  CHECK(read_history(record_text(events)).history.fruitless_count() == 2);
  CHECK(read_history(record_text(events), /*reports_from_first_step=*/true)
            .history.fruitless_count() == 3);
}

TEST_CASE("an attempt that got further than all before it resets the count of fruitless attempts") {
  CHECK(count_attempts(options_for_any_cause(1000), {10, 10, 9, 10, 99}, Cause::kFailure) == 4);
  CHECK(count_attempts(options_for_any_cause(1000), {10, 10, 9, 11, 11, 11, 11, 99},
                       Cause::kFailure) == 7);
  CHECK(count_attempts(options_for_any_cause(1000), {10, 20, 30, 40, 50, 60, 70},
                       Cause::kFailure) == 7);
}

TEST_CASE(
    "a time limit and a preemption do not count as lack of progress for a program that reports no "
    "steps, but use its budget") {
  const std::vector<std::optional<std::int64_t>> no_steps(50);
  CHECK(count_attempts(options_for_any_cause(20), no_steps, Cause::kTimeout) == 21);
  CHECK(count_attempts(options_for_any_cause(20), no_steps, Cause::kPreemption) == 21);
  // This program reports its steps.
  CHECK(count_attempts(options_for_any_cause(20), {5, 5, 5, 5}, Cause::kTimeout) == 4);
}

TEST_CASE("a requeue by a person uses nothing of the budget") {
  RetryHistory history;
  history.add_restart();
  const auto decision = decide_retry(options_for_any_cause(1), history, Cause::kRequeue);
  CHECK(decision.grants_restart);
  CHECK(decision.left == 0);
}

TEST_CASE("the number of restarts used, and the bad nodes, are read from the run's record") {
  const auto read = read_history(
      record_text({{{"event", "claimed"}, {"attempt", 0}},
                   {{"event", "started"}, {"attempt", 0}},
                   {{"event", "progress"}, {"attempt", 0}, {"step", 10}},
                   {{"event", "attempt_end"}, {"attempt", 0}, {"code", 1}, {"cause", "failure"}},
                   {{"event", "restarting"}, {"attempt", 0}, {"cause", "failure"}},
                   {{"event", "started"}, {"attempt", 1}},
                   {{"event", "progress"}, {"attempt", 1}, {"step", 8}},
                   {{"event", "attempt_end"}, {"attempt", 1}, {"code", 143}, {"cause", "timeout"}},
                   {{"event", "restarting"},
                    {"attempt", 1},
                    {"cause", "timeout"},
                    {"exclude", Json::array({"n3"})}}}));
  CHECK(read.history.restart_count() == 2);
  CHECK(read.history.fruitless_count() == 1);
  CHECK(read.history.bad_nodes() == std::set<std::string>{"n3"});
  CHECK(read.last.is_restart_recorded);
  CHECK(read.last.attempt == 1);
  CHECK(read.last.cause == Cause::kTimeout);
}

TEST_CASE("the progress of a job with components is that of its first main component") {
  const Json components{{{"name", "server"}, {"role", "service"}},
                        {{"name", "trainer"}, {"role", "main"}},
                        {{"name", "evaluator"}, {"role", "main"}}};
  const auto attempt = [&](int number, int trainer_step) -> std::vector<Json> {
    const auto event = [&](const char* kind, const char* component, int step) {
      return Json{{"event", kind}, {"attempt", number}, {"component", component}, {"step", step}};
    };
    return {{{"event", "components"}, {"attempt", number}, {"components", components}},
            event("started", "server", 0),
            event("joined", "server", 0),
            event("progress", "trainer", trainer_step),
            event("progress", "evaluator", 1000 + number),
            {{"event", "attempt_end"}, {"attempt", number}, {"code", 1}, {"cause", "failure"}}};
  };
  std::string text;
  for (int number = 0; number < 3; ++number) text += record_text(attempt(number, 10));
  CHECK(read_history(text).history.fruitless_count() == 2);
  text += record_text(attempt(3, 11));
  CHECK(read_history(text).history.fruitless_count() == 0);
}

TEST_CASE(
    "an attempt without a recorded end counts as a node failure, and one that a signal ended as a "
    "preemption") {
  auto read = read_history(record_text(
      {{{"event", "claimed"}, {"attempt", 0}}, {{"event", "started"}, {"attempt", 0}}}));
  CHECK(read.last.has_attempt);
  CHECK_FALSE(read.last.is_restart_recorded);
  CHECK(read.last.cause == Cause::kNodeFailure);
  read = read_history(record_text(
      {{{"event", "claimed"}, {"attempt", 0}},
       {{"event", "attempt_end"}, {"attempt", 0}, {"code", 143}, {"reason", "signalled"}},
       {{"event", "ended"}, {"attempt", 0}, {"state", "cancelled"}}}));
  CHECK(read.last.cause == Cause::kPreemption);
  CHECK(read.last.code == 143);
  CHECK_FALSE(read_history("").last.has_attempt);
}

TEST_CASE(
    "if lead died before it recorded the run's end, an attempt with a silent node counts as a node "
    "failure") {
  Json events = Json::array({{{"event", "claimed"}, {"attempt", 0}},
                             {{"event", "attempt_end"},
                              {"attempt", 0},
                              {"code", 137},
                              {"cause", "failure"},
                              {"silent", {"n2"}}}});
  SUBCASE("a node was silent") {
    CHECK(read_history(record_text(events)).last.cause == Cause::kNodeFailure);
  }
  SUBCASE("no node was silent") {
    events[1].erase("silent");
    CHECK(read_history(record_text(events)).last.cause == Cause::kFailure);
  }
  SUBCASE("the run had ended") {
    events.push_back({{"event", "ended"}, {"attempt", 0}, {"state", "failed"}});
    CHECK(read_history(record_text(events)).last.cause == Cause::kFailure);
  }
}

TEST_CASE("a completed run that is requeued by hand does not count as a failure") {
  const auto read = read_history(
      record_text({{{"event", "claimed"}, {"attempt", 0}},
                   {{"event", "attempt_end"}, {"attempt", 0}, {"code", 0}, {"reason", "ok"}},
                   {{"event", "ended"}, {"attempt", 0}, {"state", "completed"}}}));
  CHECK(read.last.cause == Cause::kNone);
  CHECK(decide_retry(options_for_any_cause(3), read.history, read.last.cause).why.empty());
}

TEST_CASE("the history shows whether an earlier attempt was preempted") {
  const auto read = [](std::string_view cause) {
    return read_history(
        record_text({{{"event", "claimed"}, {"attempt", 0}},
                     {{"event", "attempt_end"}, {"attempt", 0}, {"code", 143}, {"cause", cause}},
                     {{"event", "claimed"}, {"attempt", 1}}}));
  };
  CHECK(read("preemption").history.was_preempted());
  CHECK_FALSE(read("timeout").history.was_preempted());
}

TEST_CASE("the record shows whether Slurm queues the job of a completed run again") {
  Json end{{"event", "ended"}, {"attempt", 0}, {"state", "completed"}, {"code", 0}};
  CHECK_FALSE(read_history(record_text({{{"event", "claimed"}, {"attempt", 0}}, end}))
                  .last.is_requeued_after_end);
  end["requeued"] = true;
  CHECK(read_history(record_text({{{"event", "claimed"}, {"attempt", 0}}, end}))
            .last.is_requeued_after_end);
}

TEST_CASE("causes are parsed by name, and an unknown name is refused") {
  CHECK(*parse_causes("timeout,hang") == std::set<Cause>{Cause::kTimeout, Cause::kHang});
  for (const char* wrong : {"", "timeout,", "none", "requeue", "time out"}) {
    const auto refused = parse_causes(wrong);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::kUsage);
  }
  for (const auto cause : {Cause::kTimeout, Cause::kPreemption, Cause::kNodeFailure, Cause::kHang,
                           Cause::kOom, Cause::kFailure, Cause::kRequeue}) {
    CHECK(of_word<Cause>(word(cause)) == cause);
  }
}

TEST_CASE(
    "nodes that are down or failing, or that do not answer, are bad, and all others are not") {
  CHECK(parse_bad_nodes(
            "n1 mixed\nn2 down*\nn2 down*\nn3 allocated*\nn4 idle\nn5 drained\nn6 failing\n") ==
        std::vector<std::string>{"n2", "n3", "n6"});
  CHECK(parse_bad_nodes("").empty());
}

TEST_CASE("a job's end and nodes are read from the output of scontrol show") {
  ::setenv("TZ", "UTC", 1);
  const auto facts = parse_job(
      "JobId=73 JobName=x\n   UserId=me(1) GroupId=me(1)\n"
      "   JobState=COMPLETING Reason=TimeLimit Dependency=(null)\n   Requeue=1 Restarts=2\n"
      "   StartTime=2026-11-21T16:00:00 EndTime=2026-11-21T16:15:12 Deadline=N/A\n"
      "   PreemptEligibleTime=2026-11-21T16:00:00 PreemptTime=2026-11-21T16:10:00\n"
      "   ReqNodeList=(null) ExcNodeList=n9\n   NodeList=n[1-2]\n   BatchHost=n1\n",
      1795277652);
  CHECK(facts.state == "COMPLETING");
  CHECK(facts.reason == "TimeLimit");
  CHECK(facts.nodes == "n[1-2]");
  CHECK(facts.excluded == "n9");
  CHECK(facts.restarts == 2);
  CHECK(facts.is_preempted);
  CHECK_FALSE(parse_job("   PreemptTime=None\n", 0).is_preempted);
  REQUIRE(facts.seconds_to_limit.has_value());
  CHECK(*facts.seconds_to_limit == 60);
  CHECK_FALSE(parse_job("   EndTime=Unknown\n   NodeList=(null)\n", 0).seconds_to_limit);
  CHECK(parse_job("   EndTime=Unknown\n   NodeList=(null)\n", 0).nodes.empty());
}

TEST_CASE("no field of a job is read from its name, its command, its paths or its comment") {
  const std::string fakes =
      "x JobState=FAILED Reason=NodeFail Restarts=9 Partition=fake ExcNodeList=n8 NodeList=n7 "
      "MinMemoryCPU=9G PreemptTime=2026-11-21T16:10:00 EndTime=2026-11-21T16:15:12";
  const auto job = [&](const std::string& nodes) {
    return "JobId=73 JobName=" + fakes +
           "\n   UserId=me(1) GroupId=me(1)\n   JobState=RUNNING Reason=None Dependency=(null)\n"
           "   Requeue=1 Restarts=0\n   StartTime=2026-11-21T16:00:00 EndTime=Unknown\n"
           "   Partition=gpu AllocNode:Sid=n0:1\n   ReqNodeList=(null) ExcNodeList=(null)\n"
           "   NodeList=" +
           nodes + "\n   MinCPUsNode=2 MinMemoryNode=500M\n   Command=/" + fakes +
           "\n   WorkDir=/" + fakes + "\n   Comment=" + fakes + "\n\n";
  };
  const auto facts = parse_job(job("n1") + job("n2"), 0);  // the parts of a heterogeneous job
  CHECK(facts.state == "RUNNING");
  CHECK(facts.reason == "None");
  CHECK(facts.partition == "gpu");
  CHECK(facts.nodes == "n1,n2");
  CHECK(facts.excluded.empty());
  CHECK(facts.memory_mib == 500);
  CHECK_FALSE(facts.has_memory_per_cpu);
  CHECK(facts.restarts == 0);
  CHECK_FALSE(facts.is_preempted);
  CHECK_FALSE(facts.seconds_to_limit.has_value());
}

TEST_CASE(
    "a run that gives no sign of life counts as hung only if it has reported progress before or a "
    "limit is set") {
  HangWatch::Clock::time_point now{std::chrono::hours(1)};
  SUBCASE("it reports no progress, no limit: never") {
    HangWatch watch(std::nullopt);
    watch.on_start(now);
    watch.on_unreadable_report(now + seconds(5));
    CHECK_FALSE(watch.next_deadline());
    CHECK_FALSE(watch.hang_message(now + std::chrono::hours(1000)));
  }
  SUBCASE("it reports progress, no limit: half an hour") {
    HangWatch watch(std::nullopt);
    watch.on_start(now);
    watch.on_progress(now + seconds(5), "step 120");
    CHECK_FALSE(watch.hang_message(now + seconds(5) + HangWatch::kProgressLimit - seconds(1)));
    CHECK(*watch.hang_message(now + seconds(5) + HangWatch::kProgressLimit) ==
          "the run hangs: no progress was reported for 1800 s; the latest report was step 120");
  }
  SUBCASE("it reports no progress, with a limit: printed output is a sign of life") {
    HangWatch watch(seconds(15));
    watch.on_start(now);
    watch.on_output(now + seconds(10));
    CHECK_FALSE(watch.hang_message(now + seconds(28)));  // output may be reported up to 4 s late
    CHECK(*watch.hang_message(now + seconds(29)) ==
          "the run hangs: no rank has printed anything or reported progress for 19 s "
          "(health.hang_after)");
  }
  SUBCASE("it reports progress: printed output is no sign of life") {
    HangWatch watch(seconds(15));
    watch.on_start(now);
    watch.on_progress(now, "");
    watch.on_output(now + seconds(10));
    CHECK(watch.hang_message(now + seconds(15)));
  }
  SUBCASE("the whole job was suspended") {
    HangWatch watch(seconds(15));
    watch.on_start(now);
    watch.on_progress(now, "");
    watch.on_lead_suspended(std::chrono::hours(1));
    CHECK_FALSE(watch.hang_message(now + std::chrono::hours(1) + seconds(14)));
    CHECK(watch.hang_message(now + std::chrono::hours(1) + seconds(15)));
  }
  SUBCASE("the watch is off after the final report") {
    HangWatch watch(seconds(15));
    watch.on_start(now);
    watch.stop_watching();
    CHECK_FALSE(watch.hang_message(now + seconds(100)));
  }
}

}  // namespace
}  // namespace dlrun::agent
