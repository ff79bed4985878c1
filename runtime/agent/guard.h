#pragma once
// The guard: the first process of a task. The guard outlives its child, the rank's agent.
//
// A killed agent (SIGKILL, out of memory) cannot end the processes of its program any more. The
// guard adopts these processes and ends them.
//
// With a guard, the agent can also distinguish the two ways in which Slurm signals a step. With the
// process tracker cgroup, Slurm signals only the task's first process; with linuxproc, every
// process of the tree. The guard passes on to the agent each signal that reaches the guard. A
// signal that reaches the agent both directly and through the guard has reached the program as
// well.

#include <optional>

#include "common/files.h"

namespace dlrun::agent {

/// Returns the real-time signal by which the guard passes a signal on to the agent. The value sent
/// with it (si_int) is the number of the original signal. The kernel never merges it with a signal
/// that was sent directly.
[[nodiscard]] int passed_on_signal();
/// Returns the signal that the agent gets when the guard is gone.
[[nodiscard]] int guard_gone_signal();

/// Forks into guard and agent. In the agent, returns a non-blocking signalfd for INT TERM HUP QUIT
/// USR1 USR2 CHLD and the two signals above. In the guard, returns nullopt after the agent has
/// ended and its descendants are killed; exit_code is then the agent's exit code. If a signal ended
/// the agent, the guard kills itself with that signal. Must be called before there is a second
/// thread.
[[nodiscard]] std::optional<UniqueFd> fork_into_guard_and_agent(int& exit_code);

}  // namespace dlrun::agent
