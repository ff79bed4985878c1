#pragma once
// A step starts the agents of one attempt's ranks, and reports how the agents end. There are two
// kinds: a step of Slurm starts the agents through srun; a local step, for a run on this machine,
// starts them as child processes of lead. Runs in the thread of lead's event loop.

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

/// Receives the events of a step.
class StepHandler {
 public:
  virtual ~StepHandler() = default;
  /// Called when the end of a task is known. host is empty for a local step. code: 128 + signal if
  /// a signal ended the task; signal: 0 if the task exited.
  virtual void on_task_end(int rank, std::string_view host, int code, int signal) = 0;
  /// Called when Slurm ends the step and gives a reason: "TIME LIMIT", "PREEMPTION".
  virtual void on_cancel_reason(std::string_view reason) = 0;
  /// Called when Slurm reports an out-of-memory kill in the step.
  virtual void on_out_of_memory() = 0;
  /// Called when Slurm could not start the step's tasks on node.
  virtual void on_launch_failure(std::string_view node, std::string_view why) = 0;
  /// Called when srun reports that nodes of the step have failed. nodes is a node list.
  virtual void on_node_failure(std::string_view nodes) = 0;
  /// Called with each line of srun's standard error that has no mark (text_marks.h). No rank's
  /// program printed such a line: it is a message of Slurm or, for example, an error of the
  /// container tool.
  virtual void on_unmarked_line(std::string_view line) = 0;
  /// Called when a signal has ended srun although stop() was not called.
  virtual void on_srun_killed(int signal) = 0;
  /// Called once srun has ended, or once no process of a local step is left. code: srun's exit
  /// code, or, for a local step, that of the first agent that failed. words: the last messages of
  /// srun, separated by "; "; empty for a local step.
  virtual void on_step_end(int code, std::string_view words) = 0;
};

class Step {
 public:
  virtual ~Step() = default;
  /// Collects child processes that have ended. Call it after SIGCHLD.
  virtual void reap() = 0;
  /// Asks the step to end, or kills it. Kills a local step in both cases.
  virtual void stop(bool kills) = 0;
  /// Continues reading the output, and calls reap(), because a SIGCHLD can be lost. Call it at
  /// least every half second while the loop runs.
  virtual void tick() = 0;
};

/// The outputs and callbacks of a step. Every referenced object outlives the step.
struct StepContext {
  EventLoop& loop;
  StepHandler& handler;
  Sink& out;
  Sink& err;
  BackgroundFile* log = nullptr;  ///< gets a copy of a local step's out and err; may be nullptr
  TextMarks marks{};              ///< marks of the text that agents send through srun
  /// A child of this process that does not belong to the step. The end of the step does not kill
  /// this child and its descendants. -1: there is none.
  pid_t child_not_to_kill = -1;
};

/// Starts argv (an srun command line) with env. Reads srun's standard error: removes the agents'
/// marks, and parses the lines without marks as messages of Slurm. Fails as make_output_pipe() and
/// start_program() do.
[[nodiscard]] Result<std::unique_ptr<Step>> start_srun(const StepContext& context,
                                                       const std::vector<std::string>& argv,
                                                       const Env& env);

/// Starts rank_count copies of argv (a `dlrun-agent rank` command line) with env. Each copy also
/// gets its rank and the number of ranks, in DLRUN_RANK, DLRUN_WORLD_SIZE and similar variables.
/// Removes the variables of an outer Slurm step or MPI job from env. Fails as make_output_pipe()
/// and start_program() do, and with kIo if /dev/null cannot be opened; the copies that were started
/// are then killed.
[[nodiscard]] Result<std::unique_ptr<Step>> start_local(const StepContext& context,
                                                        const std::vector<std::string>& argv,
                                                        const Env& env, int rank_count);

}  // namespace dlrun::agent
