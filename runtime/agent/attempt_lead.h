#pragma once
// One attempt of a run: the glue between what happens (event loop, gate, step, signals) and what
// Attempt decides.

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "common/env.h"
#include "runtime/agent/attempt.h"
#include "runtime/agent/controller.h"
#include "runtime/agent/event_loop.h"
#include "runtime/agent/events.h"
#include "runtime/agent/lead.h"
#include "runtime/agent/run_claim.h"
#include "runtime/agent/sink.h"

namespace dlrun::agent {

/// Where an attempt takes place; everything outlives it.
struct AttemptPlace {
  const LeadOptions& options;
  const Env& env;
  const JobIdentity& identity;
  const ClaimedRun& run;  ///< with the attempt's number
  EventLog& events;
  EventLoop& loop;
  Sink& out;
  Sink& err;
  int signal_fd;
  const std::vector<std::string>&
      command;                   ///< an srun line; with --local a `dlrun-agent rank` line
  const Controller* controller;  ///< nullptr without Slurm
  pid_t bystander;               ///< a child that is not of the step; -1: none
  bool ends_before_limit;        ///< a USR1 near the time limit ends the attempt, for a requeue
  /// Called once, with how the attempt ended, while srun still waits: for Slurm's controller, or
  /// for whoever reads what it prints. Only after a success.
  std::function<void(const AttemptEnd&)> on_early_end;
};

/// Starts the step and leads it to its end: returns when nothing of the step is left. An attempt
/// that another one has superseded ends with kExitRunTaken.
[[nodiscard]] Result<AttemptEnd> lead_attempt(const AttemptPlace& place);

}  // namespace dlrun::agent
