#pragma once
// The dlrun on a host: where it is, how it starts, and how it gets there.

#include <string>

#include "common/result.h"
#include "launcher/remote/remote_process.h"
#include "launcher/remote/ssh.h"
#include "launcher/submit/context.h"

namespace dlrun {

/// Returns the path of dlrun on the host: that of the host's file, or with `dlrun: auto` a folder
/// of
/// ~/.cache/dlrun that is named after this dlrun and its tools.
[[nodiscard]] std::string program_there(const Context& context, const HostFile& host);

/// Starts dlrun on the host with a request.
[[nodiscard]] Result<RemoteProcess> start_on_host(const Ssh& ssh, const std::string& program,
                                                  const RemoteRequest& request);

/// Runs the request's command on the caller's terminal and returns its exit code.
[[nodiscard]] Result<int> run_with_terminal(const Ssh& ssh, const std::string& program,
                                            RemoteRequest request);

/// Makes sure that the host has this dlrun, if its file says `dlrun: auto`: asks the host, and
/// copies dlrun, its agent and its trainer there. Trusts an earlier answer unless `asks`. Returns
/// true if dlrun was copied now. Fails with kUnavailable if the host cannot be reached, and with
/// kIo and the host's words if the programs cannot be written or do not start there.
[[nodiscard]] Result<bool> ensure_installed(const Context& context, const Ssh& ssh, bool asks);

/// Returns true if the host is this machine: the name that ssh would connect to is this machine's.
/// Asks ssh only on a machine with Slurm's commands.
[[nodiscard]] bool is_this_machine(const Ssh& ssh);

}  // namespace dlrun
