#pragma once
// The dlrun on a host: where it is, how it starts, and how it gets there.

#include <string>

#include "common/result.h"
#include "launcher/remote/remote_process.h"
#include "launcher/remote/ssh.h"
#include "launcher/submit/context.h"

namespace dlrun {

/// Returns the path of dlrun on the host: the one in the host's file, or for `dlrun: auto` a path
/// below ~/.cache/dlrun/HASH. The hash is that of this dlrun and its tools.
[[nodiscard]] std::string program_there(const Context& context, const HostFile& host);

/// Starts dlrun on the host with a request.
[[nodiscard]] Result<RemoteProcess> start_on_host(const Ssh& ssh, const std::string& program,
                                                  const RemoteRequest& request);

/// Runs the request's command on the caller's terminal and returns its exit code; kSshFailed also
/// if the connection fails.
[[nodiscard]] Result<int> run_with_terminal(const Ssh& ssh, const std::string& program,
                                            RemoteRequest request);

/// For `dlrun: auto`: asks the host whether it has this dlrun, and copies dlrun, its agent and its
/// trainer there if not. Trusts an earlier answer unless checks_again. Returns true if dlrun was
/// copied now. Fails with kUnavailable if the host cannot be reached, and with kIo and the host's
/// message if the programs cannot be written or do not start there.
[[nodiscard]] Result<bool> ensure_installed(const Context& context, const Ssh& ssh,
                                            bool checks_again);

/// Returns true if ssh would connect to a name of this machine. Asks ssh only on a machine with
/// Slurm's commands, because other machines are no hosts.
[[nodiscard]] bool is_this_machine(const Ssh& ssh);

}  // namespace dlrun
