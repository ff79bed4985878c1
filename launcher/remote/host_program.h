#pragma once
// The dlrun program on a host: its path, how it starts there, and how dlrun copies itself there.

#include <string>

#include "common/result.h"
#include "launcher/remote/remote_process.h"
#include "launcher/remote/ssh.h"
#include "launcher/submit/context.h"

namespace dlrun {

/// Returns the path of dlrun on the host: the one in the host's file, or for `dlrun: auto` a path
/// below ~/.cache/dlrun/HASH. HASH is a hash of this dlrun and its tools (runs/tools.h).
[[nodiscard]] std::string program_on_host(const Context& context, const HostFile& host);

/// Starts dlrun on the host with a request. Fails with kUnavailable if other commands use all
/// sessions of the shared connection, and with kNotFound if ssh is not in PATH.
[[nodiscard]] Result<RemoteProcess> start_on_host(const Ssh& ssh, const std::string& program,
                                                  const RemoteRequest& request);

/// Runs the request's command on the caller's terminal and returns its exit code. Returns
/// kSshFailed if the connection fails.
[[nodiscard]] Result<int> run_with_terminal(const Ssh& ssh, const std::string& program,
                                            RemoteRequest request);

/// Asks the host whether it has this dlrun, and if not, copies dlrun and its tools there. Does
/// nothing unless the host's file has `dlrun: auto`. Unless checks_again is true, also does nothing
/// if an earlier call found or made this copy. Returns true if dlrun was copied now. Fails with
/// kUnavailable if the host cannot be reached, with kInvalid if the host has another operating
/// system or processor type than this machine, and with kIo and the host's message if the programs
/// cannot be written or do not start there.
[[nodiscard]] Result<bool> ensure_installed(const Context& context, const Ssh& ssh,
                                            bool checks_again);

/// Returns true if the host name that ssh's configuration gives to the host is this machine's name.
/// Returns false if ssh reaches the host through another machine (ProxyJump, ProxyCommand). Every
/// host has Slurm; therefore returns false, and does not call ssh, if this machine has no sbatch.
[[nodiscard]] bool is_this_machine(const Ssh& ssh);

}  // namespace dlrun
