#pragma once
// Finds the processes that descend from this one, and measures their processor time and memory.

#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace dlrun::agent {

/// Makes this process a subreaper: orphans among its descendants become its children, so that
/// descendants() finds them all.
void adopt_orphans();

/// Returns true if this process has children, including zombies that it has not waited for. After
/// adopt_orphans() a process without children has no descendants. Costs one system call.
[[nodiscard]] bool has_children();

/// Returns every living process that descends from this one, parents before their children. Leaves
/// out zombies, and the process `excluded` with its descendants (-1: none). May miss a process
/// whose older sibling ends at this moment; only has_children() proves that no process is left. The
/// cost grows with the number of descendants, or with all processes of the machine if the kernel
/// lacks CONFIG_PROC_CHILDREN.
[[nodiscard]] std::vector<pid_t> descendants_without(pid_t excluded);
[[nodiscard]] inline std::vector<pid_t> descendants() {
  return descendants_without(-1);
}

/// Kills every process that descends from this one, and waits at most two seconds until none is
/// left. Needs adopt_orphans().
void end_descendants();

/// The resources that all descendants of this process use.
struct ProcessTreeUse {
  /// Processor time in clock ticks, including that of ended children for which the parent waited.
  std::uint64_t cpu_ticks = 0;
  std::uint64_t resident_bytes = 0;  ///< shared pages count once for each process that has them
  int process_count = 0;
};
/// Measures all descendants of this process, except `excluded` and its descendants; -1 excludes
/// none.
[[nodiscard]] ProcessTreeUse use_of_descendants_without(pid_t excluded);

/// Returns true if the main thread of the process has begun to exit, or is a zombie. The kernel
/// closes the process's files while it exits.
[[nodiscard]] bool is_exiting(pid_t pid);

/// Returns true if the process is suspended (SIGSTOP, not a debugger). If it has exactly one child,
/// for which it probably waits, also looks at that child, and so on.
[[nodiscard]] bool is_suspended(pid_t pid);

}  // namespace dlrun::agent
