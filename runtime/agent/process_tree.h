#pragma once
// Starting programs, with the signals and limits that are theirs.

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
  int in = 0;  ///< what becomes its standard input, output and error; these stay the caller's
  int out = 1;
  int err = 2;
  int keep = -1;              ///< a descriptor that it inherits although ours close on exec
  bool dies_with_us = false;  ///< SIGKILL when the calling thread ends
  bool restores_file_limit =
      false;  ///< with the soft limit on open files as raise_file_limit() found it
};

/// Starts the program with no signal blocked and every descriptor that we inherited ourselves (PMI2
/// hands over one). Fails with kNotFound where a shell would say 127 and kRefused where it would
/// say 126; the message names the program and what was searched.
[[nodiscard]] Result<pid_t> start_program(const Program& program);

/// Waits for a child of ours, at most limit; false when it still lives then.
[[nodiscard]] bool ends_within(pid_t child, std::chrono::milliseconds limit);

/// Becomes the program; returns only to say why that failed.
[[nodiscard]] Error become_program(const std::vector<std::string>& argv, const Env& env);

/// The exit code that belongs to a failure of the two above.
[[nodiscard]] int exit_code_of(const Error& error);

/// A write that cannot succeed fails with EPIPE or EFBIG (RLIMIT_FSIZE, which Slurm hands on), as a
/// full disk does. The programs that are started from here get the default actions back.
void ignore_write_signals();

/// As many open files as the hard limit allows; children started with restores_file_limit are not
/// affected.
void raise_file_limit();

}  // namespace dlrun::agent
