#pragma once
// Parses the messages of Slurm's commands on standard error, most of them srun's messages about a
// step, in the wording of Slurm 22.05 to 26.05. Each parse function returns nullopt for a line of
// another kind. No I/O.
//
// srun begins each line with its name. So does slurmstepd up to 24.11. From 25.05 on, and in 24.11
// with LogTimeFormat=format_stderr, the lines of slurmstepd begin with a time in brackets instead.
// A program can print the same text, so callers must pass only lines that no program printed
// (text_marks.h).

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dlrun::agent {

/// The end of tasks, from lines such as "srun: error: n2: tasks 3,5-6: Exited with exit code 1" and
/// "srun: error: n2: task 3: Killed".
struct TaskEnds {
  std::string host;
  std::vector<int> tasks{};
  int code = 0;    ///< exit code; 128 + signal if a signal ended the tasks
  int signal = 0;  ///< 0: the tasks exited
  friend bool operator==(const TaskEnds&, const TaskEnds&) = default;
};
[[nodiscard]] std::optional<TaskEnds> parse_task_ends(std::string_view line);

/// Returns true for "slurmstepd-n1: error: Detected 1 oom_kill event in StepId=73.0. ..." and for
/// "srun: error: n1: task 0: Out Of Memory".
[[nodiscard]] bool reports_out_of_memory(std::string_view line);

/// Returns the node list of a node failure: "n[2-3]" of "srun: error: Node failure on n[2-3]".
[[nodiscard]] std::optional<std::string_view> parse_node_failure(std::string_view line);

/// A failed launch, from a line such as "srun: error: Task launch for StepId=1.0 failed on node n2:
/// Invalid job credential": node is "n2", why is "Invalid job credential".
struct LaunchFailure {
  std::string_view node;
  std::string_view why;
  friend bool operator==(const LaunchFailure&, const LaunchFailure&) = default;
};
[[nodiscard]] std::optional<LaunchFailure> parse_launch_failure(std::string_view line);

/// Returns true if a command of Slurm says that the controller does not know the job:
/// "slurm_load_jobs error: Invalid job id specified". The job was purged or never existed.
[[nodiscard]] bool reports_unknown_job(std::string_view message);

/// Returns true if srun could not start a step because Slurm is ending the job: "srun: error:
/// Unable to create step for job 8: Job/step already completing or completed".
[[nodiscard]] bool says_job_is_ending(std::string_view message);

/// Returns the reason of a cancelled step: "TIME LIMIT" of "slurmstepd-n1: error: *** STEP 73.0 ON
/// n1 CANCELLED AT 2026-11-21T16:15:12 DUE TO TIME LIMIT ***". Returns nullopt if the line contains
/// no reason, and for TASK FAILURE, with which srun itself ends a step.
[[nodiscard]] std::optional<std::string_view> parse_step_cancel_reason(std::string_view line);
/// Returns the reason of a cancelled batch script, "... *** JOB 73 ON n1 CANCELLED AT ... ***";
/// empty if the line contains none, nullopt for other lines.
[[nodiscard]] std::optional<std::string_view> parse_job_cancel_reason(std::string_view line);

}  // namespace dlrun::agent
