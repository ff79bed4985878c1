#pragma once
// Starts programs with default signal actions and, on request, the original limit on open files.

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "common/env.h"
#include "common/result.h"

namespace dlrun::agent {

struct Program {
  std::vector<std::string> argv;
  Env env;
  /// The caller's descriptors that become the program's standard input, output and error.
  int in = 0;
  int out = 1;
  int err = 2;
  /// A close-on-exec descriptor that the program inherits nevertheless; -1: none.
  int inherited_fd = -1;
  bool dies_with_us = false;  ///< the program gets SIGKILL when the calling thread ends
  /// Restores the soft limit on open files that raise_file_limit() has raised.
  bool restores_file_limit = false;
  /// Lets all processes of the user trace the program, for a profiler that attaches to it. A kernel
  /// with Yama otherwise lets only the ancestors of a process trace that process.
  bool may_be_traced = false;
  bool is_routine = false;  ///< a command that runs again and again: logged only at level debug
};

/// Starts the program with no signal blocked. The program inherits the descriptors that this
/// process inherited itself (PMI2 passes one). Fails with kNotFound where a shell would exit with
/// 127, with kRefused where it would exit with 126, and with kIo if no process can be created. The
/// message contains the program or its path.
[[nodiscard]] Result<pid_t> start_program(const Program& program);

/// Logs the end of a program that start_program() has started, with its argv and duration. status:
/// from waitpid(). Does nothing for another process. start_program() and this function must be
/// called from the same thread.
void log_program_end(pid_t pid, int status);

/// Waits at most limit for a child process to end, and reaps it. Returns false if it still runs.
[[nodiscard]] bool reap_within(pid_t child, std::chrono::milliseconds limit);

/// Replaces this process by the program. Returns only on failure.
[[nodiscard]] Error become_program(const std::vector<std::string>& argv, const Env& env);

/// Returns the exit code for a failure of start_program() or become_program(): 127 for kNotFound,
/// 126 for kRefused, and 70 for any other error.
[[nodiscard]] int exit_code_of(const Error& error);

/// Ignores SIGPIPE and SIGXFSZ, so that writes fail with EPIPE or EFBIG (RLIMIT_FSIZE, which Slurm
/// passes on) instead of killing the process. Programs that are started get the default actions.
void ignore_write_signals();

/// Raises the soft limit on open files to the hard limit. Children started with restores_file_limit
/// keep the old limit.
void raise_file_limit();

}  // namespace dlrun::agent
