#pragma once
// A child process whose standard streams, or only standard error, are connected to this process by
// pipes.

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/env.h"
#include "common/files.h"
#include "common/result.h"

namespace dlrun {

/// The child's standard input and output. Its standard error is always a pipe.
enum class Streams {
  kPiped,      ///< two pipes
  kInherited,  ///< standard input and output of this process
};

/// Owns the child and the pipes. The child has a process group of its own, so that Ctrl-C reaches
/// only this process, which then calls end(). If this process dies, the child gets SIGTERM. Not
/// thread-safe.
class PipedProcess {
 public:
  /// Starts the program with no signal blocked. Fails with kNotFound if argv[0] is not in PATH, and
  /// with kIo if no process can be started. If the process cannot execute the program, the process
  /// ends with 126 or 127.
  [[nodiscard]] static Result<PipedProcess> start(const std::vector<std::string>& argv,
                                                  const Env& env, Streams streams);
  PipedProcess(PipedProcess&& other) noexcept;
  PipedProcess& operator=(PipedProcess&&) = delete;
  ~PipedProcess();

  /// Returns this process's ends of the pipes: write to in(), read from out() and err(). in() and
  /// out() return -1 with Streams::kInherited.
  [[nodiscard]] int in() const { return in_.get(); }
  [[nodiscard]] int out() const { return out_.get(); }
  [[nodiscard]] int err() const { return err_.get(); }

  /// Closes the pipe to the child's standard input, if there is one, and waits for the end of the
  /// child. If the child still runs after two seconds, sends SIGTERM; if it still runs three
  /// seconds after that, sends SIGKILL. With must_terminate, sends SIGTERM immediately. Meanwhile
  /// appends the child's standard error to `messages`, and discards the child's standard output, so
  /// that the child does not wait for a reader. Returns the child's exit code; 128 + signal if a
  /// signal ended the child; 0 if the exit code is not known.
  int end(bool must_terminate, std::string& messages);

 private:
  PipedProcess() = default;
  pid_t pid_ = -1;
  UniqueFd in_, out_, err_;
};

}  // namespace dlrun
