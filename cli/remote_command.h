#pragma once
// Runs a command of dlrun on a host: `dlrun -H NAME COMMAND`.

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
  std::vector<std::string> words;  ///< the command and all that follows it
  std::string spec;                ///< the spec's file; empty: the command takes none
  std::string output;              ///< -o: the file to write here; empty: none
  bool takes_code = false;         ///< the command works on the code around the spec
  bool submits = false;            ///< the command queues a job
  bool watches = false;            ///< --watch
};

/// Returns the command and the words after it. Leaves out the host, and the log's file, which stays
/// on this machine.
[[nodiscard]] std::vector<std::string> words_for_host(const std::vector<std::string>& argv);

/// Runs the command on the host and returns its exit code. Prints its output. Returns nullopt if
/// the host is this machine, where the caller runs the command.
[[nodiscard]] Result<std::optional<int>> run_on_host(const Cli& cli, const HostCall& call);

/// Submits on the host exactly once, also if the connection is cut. code: nullptr if the command
/// takes none.
[[nodiscard]] Result<int> submit_on_host(const Cli& cli, const Ssh& ssh, const HostCall& call,
                                         RemoteRequest request, const CodeCopy* code);

/// Runs a request on the host and prints its output, or writes it to call.output.
[[nodiscard]] Result<int> run_request(const Cli& cli, const Ssh& ssh, const HostCall& call,
                                      const RemoteRequest& request);

/// Fails with the reason for a command that did not start, or whose connection was lost.
[[nodiscard]] Result<> check_end(const HostCall& call, const Ssh& ssh, const RemoteEnd& end);

/// Returns true if ssh can ask a person.
[[nodiscard]] bool may_ask();

}  // namespace dlrun
