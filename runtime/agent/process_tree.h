#pragma once
// Starting programs, and ending everything that grew from them.

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/env.h"
#include "common/result.h"

namespace dlrun::agent {

struct Program {
  std::vector<std::string> argv;
  Env env;
  int in = 0;  ///< what becomes its standard input, output and error; these stay the caller's
  int out = 1;
  int err = 2;
  int keep = -1;                     ///< a descriptor that it inherits although ours close on exec
  bool dies_with_us = false;         ///< SIGKILL when the calling thread ends
  bool restores_file_limit = false;  ///< with the soft limit on open files as raise_file_limit() found it
};

/// Starts the program with no signal blocked and every descriptor that we inherited ourselves (PMI2 hands over one).
/// Fails with kNotFound where a shell would say 127 and kRefused where it would say 126; the message names the program
/// and what was searched.
[[nodiscard]] Result<pid_t> start_program(const Program& program);

/// Becomes the program; returns only to say why that failed.
[[nodiscard]] Error become_program(const std::vector<std::string>& argv, const Env& env);

/// The exit code that belongs to a failure of the two above.
[[nodiscard]] int exit_code_of(const Error& error);

/// From now on orphans among our descendants become our children, so that descendants() sees them all.
void adopt_orphans();

/// Every living process that descends from this one, as the kernel lists them now; zombies are left out.
[[nodiscard]] std::vector<pid_t> descendants();

/// What they use together, of all processes that descend from this one but for the tree of `without`.
struct TreeUse {
  std::uint64_t cpu_ticks = 0;       ///< of the living, and of their children that they have waited for
  std::uint64_t resident_bytes = 0;  ///< shared pages count for each process that has them
  int processes = 0;
};
[[nodiscard]] TreeUse use_of_descendants(pid_t without);

/// The process is stopped (SIGSTOP, not a debugger), or the one that it waits for is: down a line of only children.
[[nodiscard]] bool is_stopped(pid_t pid);

/// As many open files as the hard limit allows; children started with restores_file_limit are not affected.
void raise_file_limit();

}  // namespace dlrun::agent
