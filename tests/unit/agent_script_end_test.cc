// Tests how the end of a job script is reported if its ranks have not started. The inputs are what
// Slurm 22.05 reported at that moment.
#include <string>

#include <doctest/doctest.h>

#include "runtime/agent/retry.h"
#include "runtime/agent/script_end.h"

namespace dlrun::agent {
namespace {

constexpr std::string_view kMessageTail =
    "; the job script was at: pip install x; the ranks were not started";

/// Returns a job log in which slurmstepd says that the job was cancelled. reason: the words after
/// DUE TO; empty if Slurm gives none.
std::string log_of(std::string_view reason) {
  return fmt::format(
      "Collecting x\nslurmstepd-n1: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-22T06:34:26{} "
      "***\n",
      reason.empty() ? "" : fmt::format(" DUE TO {}", reason));
}

ScriptEnd judge(std::optional<JobFacts> facts, const std::string& log, int code = 0,
                const std::string& at = "pip install x") {
  return judge_script_end(
      {.code = code, .at = at, .facts = std::move(facts), .restarts = 1, .log = log});
}

JobFacts facts_of_running_job() {
  JobFacts facts;
  facts.state = "RUNNING";
  facts.restarts = 1;
  return facts;
}
JobFacts facts_of_ending_job(int restarts = 1, std::string reason = "None") {
  JobFacts facts;
  facts.state = "COMPLETING";
  facts.reason = std::move(reason);
  facts.restarts = restarts;
  return facts;
}

TEST_CASE(
    "a script that fails in a running job ends the run with its code, whatever the log says about "
    "an earlier start") {
  for (const auto& log : {std::string(), log_of("PREEMPTION")}) {
    const auto [end, may_be_queued_again] = judge(facts_of_running_job(), log, 3, "exit 3");
    CHECK_FALSE(may_be_queued_again);
    CHECK_FALSE(end.is_cancelled);
    CHECK(end.code == 3);
    CHECK(end.message == "the job script ended with code 3 at: exit 3; the ranks were not started");
  }
  // Exit code 0 is no success here, because no rank was started.
  const auto exit_0 = judge(facts_of_running_job(), "", 0, "exit 0").end;
  CHECK_FALSE(exit_0.is_cancelled);
  CHECK(exit_0.code == 1);
}

TEST_CASE(
    "if a script ends at `false`, the message does not quote `false`: the script has printed the "
    "reason") {
  CHECK(judge(facts_of_running_job(), "", 1, "false").end.message ==
        "the job script ended with code 1; the ranks were not started");
}

TEST_CASE(
    "a signal that only the script gets is distinguished from `exit 0`, although bash reports code "
    "0 for both") {
  for (const auto& facts :
       {std::optional<JobFacts>(facts_of_running_job()), std::optional<JobFacts>()}) {
    const auto [end, may_be_queued_again] = judge(facts, log_of(""));
    CHECK_FALSE(may_be_queued_again);
    CHECK(end.is_cancelled);
    CHECK(end.code == 143);
    CHECK(end.message ==
          "a signal ended the job script at: pip install x; the ranks were not started");
  }
  CHECK(judge(facts_of_running_job(), "", 143).end.is_cancelled);
}

TEST_CASE(
    "a job that Slurm requeues starts again, and the cause of its end is the one in the job's log, "
    "or else a requeue") {
  using Row = std::tuple<std::string, Cause, std::string>;
  for (const auto& [reason, cause, why] :
       {Row{"PREEMPTION", Cause::kPreemption, "the job was preempted"},
        Row{"JOB REQUEUE", Cause::kRequeue, "the job was requeued"},
        Row{"NODE FAILURE", Cause::kNodeFailure, "a node of the job failed"},
        Row{"", Cause::kRequeue, "the job was requeued"}}) {
    CAPTURE(reason);
    const auto [end, may_be_queued_again] =
        judge(facts_of_ending_job(2), log_of("TIME LIMIT") + log_of(reason));
    CHECK(may_be_queued_again);
    CHECK(end.cause == cause);
    CHECK(end.message == why + std::string(kMessageTail));
  }
  auto pending = facts_of_ending_job(2);
  pending.state = "PENDING";
  pending.is_preempted = true;
  CHECK(judge(pending, "", 1).end.cause == Cause::kPreemption);
}

TEST_CASE(
    "a job that was cancelled, timed out or lost a node, and is not queued again, ends the run "
    "with Slurm's reason") {
  // The signal also reached pip, a child of the script.
  const auto cancelled = judge(facts_of_ending_job(), log_of(""), 1);
  CHECK_FALSE(cancelled.may_be_queued_again);
  CHECK(cancelled.end.is_cancelled);
  CHECK(cancelled.end.code == 143);
  CHECK(cancelled.end.message == "the job was cancelled" + std::string(kMessageTail));
  for (const auto& timed_out : {judge(facts_of_ending_job(1, "TimeLimit"), ""),
                                judge(facts_of_ending_job(), log_of("TIME LIMIT"))}) {
    CHECK_FALSE(timed_out.may_be_queued_again);
    CHECK(timed_out.end.is_timeout);
    CHECK_FALSE(timed_out.end.is_cancelled);
    CHECK(timed_out.end.message ==
          "the job reached its time limit (resources.time)" + std::string(kMessageTail));
  }
  const auto lost = judge(facts_of_ending_job(1, "NodeDown"), log_of("NODE FAILURE on n2"));
  CHECK_FALSE(lost.may_be_queued_again);
  CHECK_FALSE(lost.end.is_cancelled);
  CHECK_FALSE(lost.end.is_timeout);
}

TEST_CASE(
    "while the controller does not answer, the job's log decides whether the job starts again") {
  CHECK(judge({}, log_of("PREEMPTION")).may_be_queued_again);
  CHECK(judge({}, log_of("JOB REQUEUE")).end.cause == Cause::kRequeue);
  CHECK_FALSE(judge({}, log_of("TIME LIMIT")).may_be_queued_again);
  CHECK(judge({}, "", 3, "exit 3").end.code == 3);
}

AttemptEnd failed_launch() {
  AttemptEnd end;
  end.code = 77;
  end.reason = EndReason::kLaunchFailed;
  end.cause = Cause::kFailure;
  end.message =
      "the step could not be launched (exit code 1): srun: error: Slurm job 7 has expired";
  return end;
}

ScriptEnd judge_launch(std::optional<JobFacts> facts, const std::string& log) {
  return judge_failed_launch(
      failed_launch(),
      {.code = 77, .at = "", .facts = std::move(facts), .restarts = 1, .log = log});
}

TEST_CASE(
    "a step that srun refuses because its job is cancelled or out of time does not count as a "
    "failure") {
  const auto [end, may_be_queued_again] = judge_launch(facts_of_ending_job(), log_of(""));
  CHECK_FALSE(may_be_queued_again);
  CHECK(end.is_cancelled);
  CHECK(end.is_slurms_doing);
  CHECK(end.code == 143);
  CHECK(end.reason == EndReason::kSignalled);
  CHECK(end.cause == Cause::kNone);
  CHECK(end.message == "the job was cancelled; " + failed_launch().message);

  const auto at_limit = judge_launch(facts_of_ending_job(1, "TimeLimit"), "");
  CHECK_FALSE(at_limit.may_be_queued_again);
  CHECK(at_limit.end.is_timeout);
  CHECK(at_limit.end.cause == Cause::kTimeout);
}

TEST_CASE(
    "if srun refuses a step, the run fails if its job is still running, but not if the job starts "
    "again") {
  const auto [end, may_be_queued_again] =
      judge_launch(facts_of_running_job(), log_of("PREEMPTION"));
  CHECK_FALSE(may_be_queued_again);
  CHECK(end.code == 77);
  CHECK(end.reason == EndReason::kLaunchFailed);
  CHECK(end.message == failed_launch().message);
  const auto requeued = judge_launch(facts_of_ending_job(2), "");
  CHECK(requeued.may_be_queued_again);
  CHECK(requeued.end.cause == Cause::kRequeue);
  CHECK(judge_launch({}, log_of("PREEMPTION")).may_be_queued_again);
}

}  // namespace
}  // namespace dlrun::agent
