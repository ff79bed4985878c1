#pragma once
// Runs other programs with an argument vector (no shell), an explicit environment, and limits for
// time and output.

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "common/result.h"

namespace dlrun {

struct Command {
  std::vector<std::string> argv;  ///< argv[0] is searched in the PATH of env unless it contains '/'
  Env env;                        ///< the child's whole environment
  std::string stdin_text;         ///< the child's whole input
  std::optional<std::string> directory;  ///< working directory; by default that of this process
  std::chrono::milliseconds timeout{30'000};
  std::size_t output_limit_bytes = 16U << 20U;  ///< limit for stdout and stderr each
  /// Called at least once a second while a stream of the child is open. When the function returns
  /// true, the child gets SIGTERM, and the function is not called again.
  std::function<bool()> is_interrupted{};
};

struct FinishedCommand {
  int exit_code = 0;  ///< 128 + signal number if a signal ended the child
  int signal = 0;     ///< 0 if the child exited by itself
  std::string out;
  std::string err;
};

/// Returns the absolute path of the program that execvp would run with env's PATH; nullopt if there
/// is no executable file of this name.
[[nodiscard]] std::optional<std::string> find_program(std::string_view name, const Env& env);

/// Runs a command to its end and captures its output. A non-zero exit code is not a failure.
/// Fails with kNotFound (no such program), kTimeout (the child was killed), kInvalid (too much
/// output) or kIo. SIGINT from the terminal reaches the child as usual.
[[nodiscard]] Result<FinishedCommand> run_command(const Command& command);

/// Returns a signal's name: "SIGKILL" for 9, "SIGRTMIN+1" for a real-time signal, and text such as
/// "signal 99" for a number without a name.
[[nodiscard]] std::string signal_name(int signal);

}  // namespace dlrun
