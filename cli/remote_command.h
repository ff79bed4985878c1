#pragma once
// Runs a command of dlrun on a host: `dlrun -H NAME COMMAND`.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "launcher/remote/code_copy.h"
#include "launcher/remote/remote_process.h"
#include "launcher/remote/ssh.h"

namespace dlrun {

/// A parsed command line that a host runs.
struct HostCall {
  std::string host, command;
  std::vector<std::string> arguments;  ///< the command's name and all arguments for the host
  std::string spec;                    ///< the spec's file; empty: the command takes none
  std::string output;                  ///< -o: the file to write on this machine; empty: none
  bool takes_code = false;             ///< the command works on the code around the spec
  bool submits = false;                ///< the command queues a job
  bool watches = false;                ///< --watch
};

/// Returns the arguments for the host. Leaves out -H, and --log-file, because the log's file is on
/// this machine.
[[nodiscard]] std::vector<std::string> arguments_for_host(const std::vector<std::string>& argv);

/// Runs the command on the host, prints its output and returns its exit code. Returns nullopt if
/// the host is this machine; the caller then runs the command.
[[nodiscard]] Result<std::optional<int>> run_on_host(const Cli& cli, const HostCall& call);

/// Submits on the host exactly once, even if the connection is cut. code: nullptr if the command
/// takes none.
[[nodiscard]] Result<int> submit_on_host(const Cli& cli, const Ssh& ssh, const HostCall& call,
                                         RemoteRequest request, const CodeCopy* code);

/// Runs a request on the host and prints its output, or writes it to call.output. on_output: called
/// once, after the first output was printed.
[[nodiscard]] Result<int> run_request(const Cli& cli, const Ssh& ssh, const HostCall& call,
                                      const RemoteRequest& request,
                                      std::function<void()> on_output = {});

/// Fails with the reason if the command did not start on the host, or if the connection was lost.
[[nodiscard]] Result<> check_end(const HostCall& call, const Ssh& ssh, const RemoteEnd& end);

/// Returns the ssh for a host, which asks on the terminal if there is one. Fails as read_host() and
/// Ssh::of_host() do.
[[nodiscard]] Result<Ssh> ssh_of(const Cli& cli, const std::string& host);

}  // namespace dlrun
