#pragma once
// Runs ssh as a child process: sends it a request and input, and receives the host's output.

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "common/files.h"
#include "common/interrupt.h"
#include "common/result.h"
#include "launcher/remote/request.h"

namespace dlrun {

/// The exit code of an ssh that could not connect, or that lost the connection.
inline constexpr int kSshFailed = 255;

/// How the program of run_program_that_may_ask() ended.
struct ProgramOutcome {
  int exit_code = 0;
  std::string err;  ///< the captured standard error
};

/// Runs a program that may ask the user through /dev/tty, and waits for its end. The program's
/// standard input and output are /dev/null. Does not wait for processes that the program leaves
/// behind. shows_errors: the program's standard error is the caller's; otherwise
/// ProgramOutcome::err gets it.
[[nodiscard]] Result<ProgramOutcome> run_program_that_may_ask(const std::vector<std::string>& argv,
                                                              const Env& env, bool shows_errors);

/// How a command on a host ended.
struct RemoteOutcome {
  bool has_begun = false;  ///< dlrun started on the host
  /// The exit code of ssh. If has_begun is true, it is the exit code of the command; 255 can also
  /// mean a cut connection.
  int exit_code = 0;
  std::string version;   ///< the version of dlrun on the host
  std::string printed;   ///< the output of ssh and of the host's shell before dlrun started
  int first_signal = 0;  ///< the first signal that was passed to the command, 0: none
};

/// Receives pieces of output. A sink that returns false accepts no more, which ends the command.
using Sink = std::function<bool(std::string_view)>;

/// One ssh with a request. Not thread-safe. The destructor closes the connection, which ends the
/// command on the host, and reaps ssh.
class RemoteProcess {
 public:
  /// Starts ssh. nonce: the nonce of the request. keeps_group: ssh stays in the caller's process
  /// group, so that ssh can ask on the terminal.
  [[nodiscard]] static Result<RemoteProcess> start(const std::vector<std::string>& argv,
                                                   const Env& env, std::string_view nonce,
                                                   bool keeps_group);
  RemoteProcess(RemoteProcess&& other) noexcept;
  RemoteProcess& operator=(RemoteProcess&&) = delete;
  ~RemoteProcess();

  /// Queues bytes for the host. read_line() and follow_to_end() send them.
  void send(std::string_view bytes) { to_send_ += bytes; }
  void send(const RemoteFrame& frame) { to_send_ += encode(frame); }
  /// Closes ssh's standard input when all bytes are sent. The command on the host then reads the
  /// end of its input. Sends no frame about the end.
  void end_input() { input_ = Input::kRaw, input_ended_ = true; }
  /// Keeps a session of the shared connection (Ssh::lock_session_slot()) until this object is
  /// destroyed.
  void hold_session(UniqueFd session) { session_ = std::move(session); }
  enum class Input {
    kNone,    ///< the caller's standard input is not read
    kFramed,  ///< the caller's standard input is sent as frames
    kRaw,     ///< the caller's standard input is sent unchanged
  };
  /// Sends the caller's standard input to the host in this form from now on.
  void forward_input(Input input) { input_ = input; }
  /// Returns true if dlrun has started on the host.
  [[nodiscard]] bool has_begun() const { return out_filter_.has_begun(); }

  /// Returns the next line of the answer. If ssh ends before the line has come, fails with the
  /// error that the host printed, with kNotFound if dlrun did not start there, or with kUnavailable
  /// if ssh could not connect or lost the connection. Fails with kTimeout, with kInterrupted after
  /// a signal, and with kInvalid if the line is longer than the limit.
  [[nodiscard]] Result<std::string> read_line(std::size_t limit_bytes, std::chrono::seconds timeout,
                                              const Interrupt& interrupt);
  /// Passes the output to the sinks until ssh ends. Sends the first signal in `interrupt` to the
  /// command. Closes the connection if the command still runs ten seconds later.
  [[nodiscard]] Result<RemoteOutcome> follow_to_end(const Sink& out, const Sink& err,
                                                    const Interrupt& interrupt);

 private:
  RemoteProcess(pid_t pid, UniqueFd in, UniqueFd out, UniqueFd err, std::string_view nonce)
      : pid_(pid),
        in_(std::move(in)),
        out_(std::move(out)),
        err_(std::move(err)),
        out_filter_(nonce),
        err_filter_(nonce) {}

  /// Waits at most 500 ms for output, input or room to send, and reads or sends what is possible.
  /// Returns false at the end of the host's output.
  [[nodiscard]] Result<bool> transfer_some(const Sink& out, const Sink& err);
  [[nodiscard]] Result<> read_output(UniqueFd& fd, MarkerFilter& filter, const Sink& sink);
  void write_some();
  void read_input();
  /// Returns true if ssh has ended. waits: first waits for this end.
  bool reap(bool waits);
  /// Returns the error for an ssh that has ended before the answer. err: the host's standard error
  /// after the line with which dlrun on the host begins (marker_of()).
  [[nodiscard]] Error error_of(std::string_view err) const;

  pid_t pid_ = -1;
  UniqueFd session_, in_, out_, err_;
  MarkerFilter out_filter_, err_filter_;
  std::string to_send_, unread_output_;
  Input input_ = Input::kNone;
  bool input_ended_ = false, is_reaped_ = false;
  int status_ = 0;
};

}  // namespace dlrun
