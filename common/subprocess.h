#pragma once
// Other programs: argv vectors, never a joined string; an explicit environment; bounded time and
// output.

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
  std::vector<std::string> argv;  ///< argv[0] is looked up in env's PATH unless it holds a '/'
  Env env;                        ///< the child's whole environment
  std::string stdin_text;         ///< written to the child's standard input, which is then closed
  std::optional<std::string> directory;  ///< working directory; the caller's by default
  std::chrono::milliseconds timeout{30'000};
  std::size_t output_limit_bytes = 16U << 20U;  ///< for stdout and stderr each
  std::function<bool()>
      is_unwanted{};  ///< asked once a second and after signals; once true, the child gets SIGTERM
};

struct Finished {
  int exit_code = 0;  ///< 128 + signal when a signal ended it
  int signal = 0;     ///< 0: it exited
  std::string out;
  std::string err;
};

/// The program's absolute path as execvp would find it in env's PATH; nothing when there is none
/// that is executable.
[[nodiscard]] std::optional<std::string> find_program(std::string_view name, const Env& env);

/// Runs command to its end and captures what it prints. A non-zero exit is not an error here.
/// Fails with kNotFound (no such program), kTimeout (killed, reaped), kInvalid (output over the
/// limit), kIo. SIGINT on the terminal reaches the child as usual; the caller is not interrupted
/// between reaping and returning.
[[nodiscard]] Result<Finished> run_command(const Command& command);

/// "SIGKILL" for 9; "SIGRTMIN+1", "signal 99" for the others.
[[nodiscard]] std::string signal_name(int signal);

}  // namespace dlrun
