#pragma once
// Starts a program on this machine. The program continues after this process has ended. dlrun uses
// this for the script of a run in an allocation that the user already has (`dlrun run --here`,
// `dlrun submit --in`).

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "common/env.h"
#include "common/files.h"
#include "common/result.h"

namespace dlrun {

/// A program in a session of its own, without a terminal. The program waits at its start until
/// let_run(), so that the caller can first record the program's pid. If the caller dies before
/// let_run(), the program exits.
class DetachedProcess {
 public:
  /// Starts the program. Its standard input is /dev/null. Its outputs are appended to `log`, which
  /// is created with mode 0600. env: its whole environment. directory: its working directory;
  /// empty: the caller's. Fails with kNotFound if argv[0] is not in PATH, and with kIo if `log`
  /// cannot be opened or no process can be made. If `directory` or the program cannot be used, only
  /// the exit code shows it: 126 or 127.
  [[nodiscard]] static Result<DetachedProcess> start(const std::vector<std::string>& argv,
                                                     const Env& env,
                                                     const std::filesystem::path& directory,
                                                     const std::filesystem::path& log);

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Lets the program run. Fails with kIo if the waiting process has already ended.
  [[nodiscard]] Result<> let_run();

 private:
  DetachedProcess(pid_t pid, UniqueFd start_pipe) : pid_(pid), start_pipe_(std::move(start_pipe)) {}

  pid_t pid_ = -1;
  UniqueFd start_pipe_;
};

}  // namespace dlrun
