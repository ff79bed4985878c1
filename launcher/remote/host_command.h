#pragma once
// Runs a command of dlrun on a host: `dlrun -H NAME COMMAND`. host_submission.cc defines
// submit_on_host().

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/remote/code_copy.h"
#include "launcher/remote/host_call.h"
#include "launcher/remote/remote_process.h"
#include "launcher/remote/ssh.h"
#include "launcher/submit/context.h"
#include "launcher/submit/reporter.h"

namespace dlrun {

/// Shows the output of a host. The command line implements it for the terminal.
class HostOutput {
 public:
  HostOutput() = default;
  HostOutput(const HostOutput&) = delete;
  HostOutput& operator=(const HostOutput&) = delete;
  virtual ~HostOutput() = default;

  /// Show bytes of the host's standard output (out) or standard error (err). Return false if the
  /// stream of this process accepts no more.
  virtual bool out(std::string_view bytes) = 0;
  virtual bool err(std::string_view bytes) = 0;
  /// Shows the bytes of an incomplete character that are still held back. Called at the end of each
  /// command.
  virtual void finish() = 0;
  /// Returns true if standard output is a pipe that nobody reads any more.
  [[nodiscard]] virtual bool has_lost_reader() const = 0;
  /// Reports the file to which the host's output was written.
  virtual void on_written(const std::filesystem::path& file) = 0;
};

/// The standard streams of the process that calls a host.
struct CallerStreams {
  bool colour_out = false, colour_err = false;
  bool has_terminal = false;  ///< standard input and standard output are a terminal
  bool can_ask = false;       ///< a person at the terminal can answer ssh's questions
};

/// The process that calls a host. The referenced objects must outlive it.
struct HostCaller {
  const Context& context;
  Reporter& reporter;
  HostOutput& output;
  CallerStreams streams;
};

/// Runs the command on the host, shows its output and returns its exit code. Returns nullopt if
/// the host is this machine; the caller must then run the command itself.
[[nodiscard]] Result<std::optional<int>> run_on_host(const HostCaller& caller,
                                                     const HostCall& call);

/// Submits on the host exactly once, even if the connection is cut, and shows the host's output.
/// code_to_copy: nullptr if the command needs no code. Returns the exit code.
[[nodiscard]] Result<int> submit_on_host(const HostCaller& caller, const Ssh& ssh,
                                         const HostCall& call, RemoteRequest request,
                                         const CodeToCopy* code_to_copy);

/// Runs a request on the host. Shows the output of the command, or writes the output to
/// call.output_file. on_output: called once, after the first output was shown. Returns the exit
/// code.
[[nodiscard]] Result<int> run_request(const HostCaller& caller, const Ssh& ssh,
                                      const HostCall& call, const RemoteRequest& request,
                                      std::function<void()> on_output = {});

/// The whole answer of a host to a command.
struct HostAnswer {
  RemoteOutcome end;
  std::string out, err;
};

/// Runs a short command on the host and returns its answer. argv: the command, without "dlrun";
/// not empty. Fails with kInterrupted and an empty message after a signal, and as check_end() does.
[[nodiscard]] Result<HostAnswer> ask_host(const Context& context, const Ssh& ssh,
                                          std::vector<std::string> argv);

/// Runs argv on the host, with the standard input of this process, and returns the exit code of
/// argv. rsync calls dlrun in this way as its remote shell. The shell on the host gets argv as one
/// encoded word. Drops the text that the start files of the host's shell print. Fails with
/// kUnavailable if dlrun does not start on the host.
[[nodiscard]] Result<int> run_as_rsync_shell(const Context& context, HostOutput& output,
                                             const std::string& host,
                                             std::vector<std::string> argv);

/// Returns a sink that appends to the text, and accepts no more when the text exceeds 16 MiB. The
/// text must outlive the sink.
[[nodiscard]] Sink answer_sink(std::string& text);

/// Fails with kUnavailable if ssh could not connect or lost the connection, and with kNotFound if
/// dlrun did not start on the host. ssh ends with 255 if it loses the connection. If
/// returns_users_exit_code(call) is true, the user's program may have ended with 255, so this
/// function does not notice a lost connection. For a call that submits, the message says that the
/// job is submitted: 255 reaches this function only while dlrun follows the run, after the host has
/// answered the submission.
[[nodiscard]] Result<> check_end(const HostCall& call, const Ssh& ssh, const RemoteOutcome& end);

/// Reads the host's file and returns the ssh for this host. can_ask: a person at the terminal can
/// answer ssh's questions. Fails as read_host() and Ssh::of_host() do.
[[nodiscard]] Result<Ssh> ssh_of(const Context& context, const std::string& host, bool can_ask);

}  // namespace dlrun
