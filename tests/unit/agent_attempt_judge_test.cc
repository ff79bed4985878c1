// Tests judge(), the pure function that finds the reason and the cause of an attempt's end, and the
// suspect nodes.
#include <signal.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/agent/attempt_judge.h"

namespace dlrun::agent {
namespace {

/// Returns the facts of an attempt of four ranks on n1 and n2 in which rank 3 on n2 has failed.
EndFacts facts_of_failed_rank(int code, int signal = 0) {
  EndFacts facts{.rank_count = 4, .has_any_rank = true, .job_nodes = "n[1-2]"};
  facts.end.code = code;
  facts.end.reason = EndReason::kRankFailed;
  facts.end.message = "rank 3 failed";
  facts.end.first_failed = FailedRank{3, "n2", 4711, {code, signal, {}}};
  facts.not_lost_count_of_host = {{"n1", 2}, {"n2", 2}};
  return facts;
}

/// Returns the facts of an attempt whose four ranks have ended with 0.
EndFacts facts_without_failure() {
  EndFacts facts{.rank_count = 4, .has_any_rank = true};
  facts.end.reason = EndReason::kOk;
  return facts;
}

TEST_CASE("if a rank fails by itself, the cause is a failure, and the user gets no extra line") {
  const auto judged = judge(facts_of_failed_rank(1));
  CHECK(judged.end.cause == Cause::kFailure);
  CHECK(judged.end.code == 1);
  CHECK(judged.end.message == "rank 3 failed");
  CHECK(judged.end.suspects.empty());
  CHECK(judged.lines.empty());
}

TEST_CASE("Slurm's reason replaces the cause only if Slurm's signal ended the rank") {
  struct Row {
    const char* reason;
    Cause cause;
    bool is_timeout, is_cancelled;
  };
  for (const auto& row : {Row{"TIME LIMIT", Cause::kTimeout, true, false},
                          Row{"PREEMPTION", Cause::kPreemption, false, true},
                          Row{"JOB REQUEUE", Cause::kRequeue, false, true},
                          Row{"NODE FAILURE ON n2", Cause::kNodeFailure, false, false}}) {
    auto facts = facts_of_failed_rank(128 + SIGTERM, SIGTERM);
    facts.end.is_cancelled = true;
    facts.signs.cancel_reason = row.reason;
    const auto judged = judge(facts);
    CHECK(judged.end.cause == row.cause);
    CHECK(judged.end.is_timeout == row.is_timeout);
    CHECK(judged.end.is_cancelled == row.is_cancelled);
    CHECK(judged.end.is_slurms_doing);
    REQUIRE(judged.lines.size() == 1);
    CHECK(judged.end.message == judged.lines[0] + "; rank 3 failed");
  }
  auto exit_with_1 = facts_of_failed_rank(1);
  exit_with_1.signs.cancel_reason = "TIME LIMIT";
  CHECK(judge(exit_with_1).end.cause == Cause::kFailure);
  CHECK_FALSE(judge(exit_with_1).end.is_slurms_doing);
}

TEST_CASE("Slurm's reason is the cause if a program is killed by the signal to save a checkpoint") {
  auto facts = facts_of_failed_rank(128 + SIGUSR1, SIGUSR1);
  facts.signs.is_preemption_near = true;
  CHECK(judge(facts).end.cause == Cause::kPreemption);  // Slurm gave no reason
  facts.signs.cancel_reason = "JOB REQUEUE";
  CHECK(judge(facts).end.cause == Cause::kRequeue);
  CHECK(judge(facts).end.is_slurms_doing);
  facts.signs.cancel_reason = "TIME LIMIT";
  CHECK(judge(facts).end.cause == Cause::kTimeout);
}

TEST_CASE(
    "the time limit is the cause if its warning killed a program, whatever retry.on contains") {
  auto facts = facts_of_failed_rank(128 + SIGUSR1, SIGUSR1);
  CHECK(judge(facts).end.cause == Cause::kFailure);
  facts.signs.is_limit_near = true;
  for (const bool retries_timeout : {false, true}) {
    facts.retries_timeout = retries_timeout;
    const auto judged = judge(facts);
    CHECK(judged.end.cause == Cause::kTimeout);
    CHECK(judged.end.is_timeout);
    REQUIRE(judged.lines.size() == 1);
    CHECK(judged.end.message == "rank 3 failed; " + judged.lines[0]);
  }
  auto other = facts_of_failed_rank(1);
  other.signs.is_limit_near = true;
  CHECK(judge(other).end.cause == Cause::kFailure);
}

TEST_CASE(
    "if all ranks end with 0, the run is complete, unless the time limit was near and retry.on has "
    "timeout") {
  auto facts = facts_without_failure();
  CHECK(judge(facts).end.cause == Cause::kNone);
  CHECK(judge(facts).end.message == "all 4 ranks ended with 0");
  facts.signs.is_limit_near = true;
  CHECK(judge(facts).end.code == 0);  // retry.on does not contain `timeout`
  facts.retries_timeout = true;
  CHECK(judge(facts).end.reason == EndReason::kTimeLimit);
  CHECK(judge(facts).end.cause == Cause::kTimeout);
  CHECK(judge(facts).end.code == 128 + SIGTERM);
  CHECK(judge(facts).lines.size() == 1);
  facts.signs.has_reported_done = true;  // the warning does not matter then
  CHECK(judge(facts).end.code == 0);
  CHECK(judge(facts).end.cause == Cause::kNone);
}

TEST_CASE("if all ranks end with 0 in a preemption's grace time, the cause is the preemption") {
  auto preempted = facts_without_failure();
  preempted.signs.is_preemption_near = true;
  CHECK(judge(preempted).end.code == 0);
  CHECK(judge(preempted).end.cause == Cause::kPreemption);
  CHECK(judge(preempted).end.had_grace);
}

TEST_CASE(
    "if several signs were noted before a rank failed, a fixed precedence decides which of them is "
    "the cause") {
  auto facts = facts_of_failed_rank(128 + SIGKILL, SIGKILL);
  facts.signs.is_out_of_memory = true;
  CHECK(judge(facts).end.cause == Cause::kOom);
  facts.signs.is_preemption_near = true;
  CHECK(judge(facts).end.cause == Cause::kPreemption);
  facts.signs.is_limit_near = true;
  facts.retries_timeout = true;
  CHECK(judge(facts).end.cause == Cause::kTimeout);
  facts.end.is_cancelled = true;
  CHECK(judge(facts).end.cause == Cause::kNone);
  facts.end.bad_nodes = {"n2"};
  CHECK(judge(facts).end.cause == Cause::kNodeFailure);
  facts.signs.is_given_up = true;
  CHECK(judge(facts).end.cause == Cause::kNone);
}

TEST_CASE("an end without a failed rank has the cause that belongs to its reason") {
  for (const auto& [reason, cause] :
       std::vector<std::pair<EndReason, Cause>>{{EndReason::kPreflightFailed, Cause::kNone},
                                                {EndReason::kIdleGpus, Cause::kNone},
                                                {EndReason::kHang, Cause::kHang},
                                                {EndReason::kTimeLimit, Cause::kTimeout},
                                                {EndReason::kJoinTimeout, Cause::kFailure},
                                                {EndReason::kLauncherLost, Cause::kFailure}}) {
    EndFacts facts{.rank_count = 4};
    facts.end.code = 1;
    facts.end.reason = reason;
    CHECK(judge(facts).end.cause == cause);
  }
}

TEST_CASE(
    "nodes where the step could not be launched are bad if it could be launched elsewhere or a "
    "rank has joined") {
  EndFacts facts{.rank_count = 4, .job_nodes = "n[1-2]"};
  facts.end.code = 77;
  facts.end.reason = EndReason::kLaunchFailed;
  facts.signs.unlaunched = {"n2"};
  CHECK(judge(facts).end.bad_nodes == std::vector<std::string>{"n2"});
  CHECK(judge(facts).end.cause == Cause::kNodeFailure);
  facts.signs.unlaunched = {"n1", "n2"};
  CHECK(judge(facts).end.bad_nodes.empty());
  CHECK(judge(facts).end.cause == Cause::kFailure);
  facts.has_any_rank = true;
  CHECK(judge(facts).end.bad_nodes.size() == 2);
}

TEST_CASE("a container is the cause only if the failed rank has never joined") {
  auto facts = facts_of_failed_rank(1);
  facts.container_failure = ContainerFailure{Cause::kImage, "no such image"};
  CHECK(judge(facts).end.cause == Cause::kFailure);  // rank 3 had joined
  facts.end.first_failed->pid = 0;
  CHECK(judge(facts).end.cause == Cause::kImage);
  CHECK(judge(facts).end.message == "the container on n2 could not be started: no such image");
  CHECK(judge(facts).lines == std::vector<std::string>{judge(facts).end.message});
  facts.end.cause = Cause::kImage;  // this cause was reported before the end
  CHECK(judge(facts).lines.empty());
}

TEST_CASE("a node is suspect if one of its agents is lost, and silent if all of them are") {
  auto facts = facts_of_failed_rank(128 + SIGKILL);
  facts.hosts_of_lost_ranks = {"n2", ""};
  facts.not_lost_count_of_host = {{"n1", 2}, {"n2", 1}, {"", 1}};
  CHECK(judge(facts).end.suspects == std::vector<std::string>{"n2"});
  CHECK_FALSE(judge(facts).end.is_whole_node_silent);
  facts.not_lost_count_of_host["n2"] = 0;
  CHECK(judge(facts).end.is_whole_node_silent);
  facts.end.reason = EndReason::kLauncherLost;  // srun was killed, so Slurm ended the agents
  CHECK(judge(facts).end.suspects.empty());
  facts.end.reason = EndReason::kHang;
  facts.hosts_of_lost_ranks.clear();
  CHECK(judge(facts).end.suspects == std::vector<std::string>{"n2"});  // the hanging rank's node
}

}  // namespace
}  // namespace dlrun::agent
