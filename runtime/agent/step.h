#pragma once
// What starts an attempt's ranks: srun, or lead itself on this machine.

#include <sys/types.h>

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
#include "runtime/agent/text_marks.h"

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
  /// Slurm could not start the step's tasks on node.
  virtual void on_launch_failure(std::string_view node, std::string_view why) = 0;
  /// srun says that Slurm holds these nodes of the step for lost, as a node list.
  virtual void on_node_failure(std::string_view nodes) = 0;
  /// A line that no rank's program printed, for what it may say of the container.
  virtual void on_foreign_line(std::string_view line) = 0;
  /// Nothing of the step is left here. words: what its launcher printed about itself.
  /// A signal ended the launcher, and not one of stop().
  virtual void on_launcher_killed(int signal) = 0;
  virtual void on_step_end(int code, std::string_view words) = 0;
};

class Step {
 public:
  virtual ~Step() = default;
  /// After SIGCHLD: collects who has ended.
  virtual void reap() = 0;
  /// Asks the step to end; without_mercy kills it.
  virtual void stop(bool without_mercy) = 0;
  /// After each round of the loop. Collects, too, who has ended: a SIGCHLD can be lost.
  virtual void tick() = 0;
};

/// Everything a step writes through; all outlive it.
struct StepPlumbing {
  EventLoop& loop;
  StepHandler& handler;
  Sink& out;
  Sink& err;
  BackgroundFile* log = nullptr;  ///< a copy of both, may be absent
  TextMarks marks{};              ///< of the text that agents send through srun
  pid_t bystander =
      -1;  ///< a child of this process that is not of the step, and is not ended with it
};

/// Runs argv (an srun line) with env. Its standard error passes through here: the agents' marks are
/// taken off, and the lines without them are read as Slurm's.
[[nodiscard]] Result<std::unique_ptr<Step>> start_srun(const StepPlumbing& plumbing,
                                                       const std::vector<std::string>& argv,
                                                       const Env& env);

/// Starts ranks copies of argv (a `dlrun-agent rank` line) with env and a world in DLRUN_*. None of
/// them belongs to an outer step, whatever env says.
[[nodiscard]] Result<std::unique_ptr<Step>> start_local(const StepPlumbing& plumbing,
                                                        const std::vector<std::string>& argv,
                                                        const Env& env, int ranks);

}  // namespace dlrun::agent
