#pragma once
// What starts an attempt's ranks: srun, or lead itself on this machine.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "common/result.h"
#include "runtime/agent/background_file.h"
#include "runtime/agent/event_loop.h"
#include "runtime/agent/sink.h"

namespace dlrun::agent {

class StepHandler {
 public:
  virtual ~StepHandler() = default;
  /// How a task ended, as far as its launcher knows. host is empty where it is this one.
  virtual void on_task_end(int rank, std::string_view host, int code, int signal) = 0;
  /// Slurm ends the step for a reason that it names: "TIME LIMIT", "PREEMPTION".
  virtual void on_cancelled(std::string_view reason) = 0;
  /// Slurm or the kernel has killed processes of the step for their memory.
  virtual void on_out_of_memory() = 0;
  /// Slurm holds these nodes of the step for lost, as a node list.
  virtual void on_node_failure(std::string_view nodes) = 0;
  /// Nothing of the step is left here. words: what its launcher printed about itself.
  virtual void on_step_end(int code, std::string_view words) = 0;
};

class Step {
 public:
  virtual ~Step() = default;
  /// After SIGCHLD: collects who has ended.
  virtual void reap() = 0;
  /// Asks the step to end; without_mercy kills it.
  virtual void stop(bool without_mercy) = 0;
  /// After each round of the loop.
  virtual void tick() = 0;
};

/// Everything a step writes through; all outlive it.
struct StepPlumbing {
  EventLoop& loop;
  StepHandler& handler;
  Sink& out;
  Sink& err;
  BackgroundFile* log = nullptr;  ///< a copy of both, may be absent
};

/// Runs argv (an srun line) with env. Its standard error passes through here, so that what it says of tasks is known.
[[nodiscard]] Result<std::unique_ptr<Step>> start_srun(const StepPlumbing& plumbing,
                                                       const std::vector<std::string>& argv, const Env& env);

/// Starts ranks copies of argv (a `dlrun-agent rank` line) with env and a world in DLRUN_*. None of them belongs to an
/// outer step, whatever env says.
[[nodiscard]] Result<std::unique_ptr<Step>> start_local(const StepPlumbing& plumbing,
                                                        const std::vector<std::string>& argv, const Env& env,
                                                        int ranks);

/// What srun says about ended tasks: "srun: error: n2: tasks 3,5-6: Exited with exit code 1", "...: task 3: Killed".
struct TaskWords {
  std::string host;
  std::vector<int> tasks{};
  int code = 0;
  int signal = 0;
  friend bool operator==(const TaskWords&, const TaskWords&) = default;
};
[[nodiscard]] std::optional<TaskWords> parse_task_words(std::string_view line);

/// "slurmstepd-n1: error: Detected 1 oom_kill event in StepId=73.0. ...", "srun: error: n1: task 0: Out Of Memory".
[[nodiscard]] bool tells_out_of_memory(std::string_view line);

/// "n[2-3]" of "srun: error: Node failure on n[2-3]".
[[nodiscard]] std::optional<std::string_view> parse_node_failure(std::string_view line);

/// "TIME LIMIT" of "slurmstepd-n1: error: *** STEP 73.0 ON n1 CANCELLED AT 2026-11-21T16:15:12 DUE TO TIME LIMIT ***".
[[nodiscard]] std::optional<std::string_view> parse_cancel_reason(std::string_view line);
/// The same of a batch script, "... *** JOB 73 ON n1 CANCELLED AT ... ***"; an empty one where it gives none.
[[nodiscard]] std::optional<std::string_view> parse_job_cancel(std::string_view line);

}  // namespace dlrun::agent
