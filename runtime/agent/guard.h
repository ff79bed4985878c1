#pragma once
// The process that a task is: it holds a rank's agent, which is its child, and outlives it.
//
// A killed agent (SIGKILL, out of memory) can end nobody any more, and what its program has started
// would live on: the guard adopts that and ends it. Process trackers signal a step in two ways,
// Slurm's cgroup tracker the task alone, its linuxproc tracker each process of the tree; the guard
// passes on to the agent what it gets itself, so that the agent knows which it was: a signal that
// came both ways has reached the program too.

#include <sys/types.h>

#include <optional>

#include "common/files.h"

namespace dlrun::agent {

/// What the agent, the guard's child, needs to know.
struct Guarded {
  pid_t guard = 0;
  UniqueFd
      signals;  ///< a signalfd, non-blocking: INT TERM HUP QUIT USR1 USR2 CHLD and the two below
};

/// The guard passes a signal on as this real-time signal, its number as the value: it cannot merge
/// with a direct one.
[[nodiscard]] int passed_on_signal();
/// Reaches the agent when the guard is gone.
[[nodiscard]] int guard_gone_signal();

/// Splits the process. In the agent it returns a Guarded. The guard returns nothing, after the
/// agent's end and with exit_code set to its code; where a signal ended the agent, the guard has
/// ended its descendants and dies of the same signal. Must be called before there is a second
/// thread.
[[nodiscard]] std::optional<Guarded> split_off_guard(int& exit_code);

}  // namespace dlrun::agent
