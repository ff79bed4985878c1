// Tests the parsing of Slurm's messages about a step, in the forms of all versions.
#include <signal.h>

#include <string>

#include <doctest/doctest.h>

#include "runtime/agent/slurm_words.h"

namespace dlrun::agent {
namespace {

/// The prefixes of slurmstepd's errors, by version and LogTimeFormat.
const std::vector<std::string> kStepdPrefixes{
    "slurmstepd: error: ",                      // 22.05 to 24.11
    "slurmstepd-n1: error: ",                   // 22.05 to 24.11, several slurmd on a host
    "[2026-11-22T06:34:26.123] error: ",        // 24.11 with format_stderr; 25.05, 26.05
    "[2026-11-22T06:34:26] error: ",            // LogTimeFormat=iso8601
    "[2026-11-22T06:34:26.123+01:00] error: ",  // rfc5424_ms
    "[Nov 22 06:34:26.123456 4711 0x7f1c2b3a4700 signal] error: ",  // thread_id
    "3: slurmstepd: error: ",                                       // srun --label
    "  3: [2026-11-22T06:34:26] error: ",                           // srun --label
};

TEST_CASE("srun's messages about ended tasks are parsed") {
  CHECK(parse_task_ends("srun: error: n2: task 3: Killed") == TaskEnds{"n2", {3}, 137, SIGKILL});
  CHECK(parse_task_ends("srun: error: n1: tasks 0-2,4: Exited with exit code 13") ==
        TaskEnds{"n1", {0, 1, 2, 4}, 13, 0});
  CHECK(parse_task_ends("srun: error: n1: task 0: Segmentation fault (core dumped)") ==
        TaskEnds{"n1", {0}, 139, SIGSEGV});
  CHECK(parse_task_ends("srun: error: n1: task 7: Terminated") ==
        TaskEnds{"n1", {7}, 143, SIGTERM});
}

TEST_CASE("other lines of srun, and malformed lines, are not parsed as messages about tasks") {
  for (const auto* line :
       {"srun: error: Unable to create step for job 8: More processors requested than permitted",
        "srun: error: n1: task x: Killed", "srun: error: n1: tasks 5-2: Killed",
        "srun: error: n1: tasks 0-999999999: Killed", "srun: error: n1: task 1: Danced",
        "srun: error: n1: task 1: Exited with exit code 999", "error: n1: task 1: Killed",
        "srun: error: n1: task", "srun: error: n1: tasks"}) {
    CAPTURE(line);
    CHECK_FALSE(parse_task_ends(line));
  }
}

TEST_CASE(
    "the reason for which Slurm ends a step or a job is read from slurmstepd's message in any "
    "version") {
  for (const auto& prefix : kStepdPrefixes) {
    CAPTURE(prefix);
    const auto step_prefix = prefix + "*** STEP 73.0 ON n1 CANCELLED AT 2026-11-21T16:15:12";
    CHECK(parse_step_cancel_reason(step_prefix + " DUE TO TIME LIMIT ***") == "TIME LIMIT");
    CHECK(parse_step_cancel_reason(step_prefix + " DUE TO PREEMPTION ***") == "PREEMPTION");
    CHECK(parse_step_cancel_reason(step_prefix + " DUE TO JOB REQUEUE ***") == "JOB REQUEUE");
    CHECK(parse_step_cancel_reason(step_prefix +
                                   " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***") ==
          "NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS");
    for (const auto* end : {" ***", " DUE to SIGNAL Terminated ***", " DUE TO TASK FAILURE ***",
                            " DUE TO TIME LIMIT"}) {
      CAPTURE(end);
      CHECK_FALSE(parse_step_cancel_reason(step_prefix + end));
    }
    CHECK_FALSE(parse_step_cancel_reason("echo " + step_prefix + " DUE TO TIME LIMIT ***"));
    const auto job_prefix = prefix + "*** JOB 73 ON n1 CANCELLED AT 2026-11-21T16:15:12";
    CHECK(parse_job_cancel_reason(job_prefix + " DUE TO JOB REQUEUE ***") == "JOB REQUEUE");
    CHECK(parse_job_cancel_reason(job_prefix + " ***") == "");
    CHECK_FALSE(parse_step_cancel_reason(job_prefix + " DUE TO TIME LIMIT ***"));
    for (const auto& line : {step_prefix + " ***", job_prefix, "echo " + job_prefix + " ***"})
      CHECK_FALSE(parse_job_cancel_reason(line));
  }
  CHECK_FALSE(parse_step_cancel_reason("slurmstepd: DUE TO ***"));
  CHECK_FALSE(parse_step_cancel_reason(""));
}

TEST_CASE("Slurm's messages about memory that ran out are recognised") {
  for (const auto& prefix : kStepdPrefixes) {
    CAPTURE(prefix);
    CHECK(reports_out_of_memory(
        prefix +
        "Detected 1 oom_kill event in StepId=73.0. Some of the step tasks have been OOM Killed."));
    CHECK(reports_out_of_memory(
        prefix +
        "Detected 2 oom_kill events in StepId=73.0. Some of the step tasks have been OOM Killed."));
    CHECK(reports_out_of_memory(
        prefix +
        "Detected 1 oom-kill event(s) in StepId=73.0 cgroup. Some of your processes may "
        "have been killed by the cgroup out-of-memory handler."));
  }
  CHECK(reports_out_of_memory("srun: error: n1: task 0: Out Of Memory"));
  CHECK_FALSE(reports_out_of_memory("srun: error: n1: task 0: Exited with exit code 1"));
  CHECK_FALSE(reports_out_of_memory("my program: error: n1: task 0: Out Of Memory"));
  const auto ends = parse_task_ends("srun: error: n1: task 3: Out Of Memory");
  REQUIRE(ends);
  CHECK(ends->signal == SIGKILL);
  CHECK(ends->tasks == std::vector<int>{3});
}

TEST_CASE("Slurm's message about a lost node is recognised") {
  CHECK(parse_node_failure("srun: error: Node failure on n[2-3]") == "n[2-3]");
  CHECK_FALSE(parse_node_failure("Node failure on n2"));
}

TEST_CASE("Slurm's message about a node where the step cannot be launched is recognised") {
  CHECK(parse_launch_failure(
            "srun: error: Task launch for StepId=7.0 failed on node n2: Invalid job credential") ==
        LaunchFailure{"n2", "Invalid job credential"});
  for (const auto* line :
       {"srun: error: Task launch for StepId=7.0 failed on node n2",
        "srun: error: Node failure on n2", "error: Task launch for StepId=7.0 failed on node n2: x",
        "srun: error: Task launch for StepId=7.0 failed on node : x"}) {
    CAPTURE(line);
    CHECK_FALSE(parse_launch_failure(line));
  }
}

}  // namespace
}  // namespace dlrun::agent
