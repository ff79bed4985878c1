#pragma once
// Runs one attempt: connects the event loop, the connections of the ranks, the step and the
// signals with Attempt, which makes the decisions.

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "common/env.h"
#include "runtime/agent/attempt.h"
#include "runtime/agent/controller.h"
#include "runtime/agent/event_log.h"
#include "runtime/agent/event_loop.h"
#include "runtime/agent/lead.h"
#include "runtime/agent/notifier.h"
#include "runtime/agent/run_claim.h"
#include "runtime/agent/sink.h"

namespace dlrun::agent {

/// The objects that an attempt uses. Every referenced object outlives the attempt.
struct AttemptContext {
  const LeadOptions& options;
  const Env& env;
  const JobIdentity& identity;
  const ClaimedRun& run;  ///< has the number of this attempt
  EventLog& events;
  EventLoop& loop;
  Sink& out;
  Sink& err;
  int signal_fd;
  /// The srun command line; with --local the `dlrun-agent rank` command line.
  const std::vector<std::string>& command;
  const SlurmController* controller;  ///< nullptr without Slurm
  Notifier* notifier;                 ///< gets the program's reports; nullptr: they are not sent
  pid_t child_not_to_kill;  ///< a child process that does not belong to the step; -1: none
  /// A USR1 near the time limit ends the attempt, so that a requeued job, or the next job of the
  /// chain, can continue the run.
  bool ends_before_limit;
  /// Called once after a successful attempt if srun has not exited yet. srun may still wait for
  /// Slurm's controller, or for the reader of its output.
  std::function<void(const AttemptEnd&)> on_success_before_srun_exits;
};

/// Starts the step, or the steps of all components, and leads them until the attempt is over. After
/// a success, also waits up to 90 s for srun to exit. The end has the code kExitRunTaken if a later
/// attempt has superseded this one. Fails with kIo if lead cannot listen on a port, and with kUsage
/// if the job has too few nodes for its components.
[[nodiscard]] Result<AttemptEnd> run_attempt(const AttemptContext& context);

}  // namespace dlrun::agent
