#pragma once
// Reads Slurm's messages about a step on srun's standard error, as Slurm 22.05 to 26.05 word them.
// No I/O.
//
// srun names itself in front of each line. So does slurmstepd, until 24.11: from 25.05 on, and
// in 24.11 with LogTimeFormat=format_stderr, a time in brackets takes the name's place. The
// functions must get lines of Slurm's alone: a program can print all of these, too (see
// text_marks.h).

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dlrun::agent {

/// How tasks ended: "srun: error: n2: tasks 3,5-6: Exited with exit code 1", "srun: error: n2: task
/// 3: Killed".
struct TaskWords {
  std::string host;
  std::vector<int> tasks{};
  int code = 0;  ///< 128 + signal where a signal ended them
  int signal = 0;
  friend bool operator==(const TaskWords&, const TaskWords&) = default;
};
[[nodiscard]] std::optional<TaskWords> parse_task_words(std::string_view line);

/// True for "slurmstepd-n1: error: Detected 1 oom_kill event in StepId=73.0. ..." and for
/// "srun: error: n1: task 0: Out Of Memory".
[[nodiscard]] bool tells_out_of_memory(std::string_view line);

/// "n[2-3]" of "srun: error: Node failure on n[2-3]".
[[nodiscard]] std::optional<std::string_view> parse_node_failure(std::string_view line);

/// "srun: error: Task launch for StepId=1.0 failed on node n2: Invalid job credential" as {"n2",
/// "Invalid ..."}.
struct LaunchFailure {
  std::string_view node;
  std::string_view why;
  friend bool operator==(const LaunchFailure&, const LaunchFailure&) = default;
};
[[nodiscard]] std::optional<LaunchFailure> parse_launch_failure(std::string_view line);

/// "TIME LIMIT" of "slurmstepd-n1: error: *** STEP 73.0 ON n1 CANCELLED AT 2026-11-21T16:15:12 DUE
/// TO TIME LIMIT ***". Returns the reason of a cancelled step. Returns nothing where the line has
/// none, or one of srun's own (that a task has failed).
[[nodiscard]] std::optional<std::string_view> parse_cancel_reason(std::string_view line);
/// Returns the reason of a cancelled batch script, "... *** JOB 73 ON n1 CANCELLED AT ... ***";
/// empty where the line gives none.
[[nodiscard]] std::optional<std::string_view> parse_job_cancel(std::string_view line);

}  // namespace dlrun::agent
