#pragma once
// The processes that descend from this one: who they are, what they use, and whether there are any.

#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace dlrun::agent {

/// From now on orphans among our descendants become our children, so that descendants() sees them
/// all.
void adopt_orphans();

/// This process has children, or zombies that it has not waited for. After adopt_orphans() a
/// process without children has no descendants at all. Costs one system call.
[[nodiscard]] bool has_children();

/// Every living process that descends from this one, parents before their children. Zombies and the
/// tree of `without` are left out. A process whose older sibling ends at this moment can be missed:
/// only has_children() proves that nobody is left. Costs as much as there are descendants, where
/// the kernel lists children (CONFIG_PROC_CHILDREN).
[[nodiscard]] std::vector<pid_t> descendants(pid_t without = -1);

/// The use of all processes that descend from this one together, but for the tree of `without`.
struct TreeUse {
  std::uint64_t cpu_ticks = 0;  ///< of the living, and of their children that they have waited for
  std::uint64_t resident_bytes = 0;  ///< shared pages count for each process that has them
  int processes = 0;
};
[[nodiscard]] TreeUse use_of_descendants(pid_t without);

/// The process is stopped (SIGSTOP, not a debugger), or the one that it waits for is: down a line
/// of only children.
[[nodiscard]] bool is_stopped(pid_t pid);

}  // namespace dlrun::agent
