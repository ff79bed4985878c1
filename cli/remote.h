#pragma once
// The two sides of `dlrun -H HOST COMMAND`: the user's machine and the host. launcher/remote does
// the work of both.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/cli.h"
#include "launcher/remote/host_command.h"

namespace dlrun {

/// Returns the Ssh object of a host. ssh may ask on the terminal if there is one.
[[nodiscard]] Result<Ssh> ssh_for_command(const Cli& cli, const std::string& host);

/// Runs the command on the host, prints its output and returns its exit code. Returns nullopt if
/// the host is this machine.
[[nodiscard]] Result<std::optional<int>> run_host_call(const Cli& cli, const HostCall& call);

/// Runs `dlrun --remote WORD`, which the dlrun on the user's machine starts over ssh on a host.
/// WORD is the request as one word (launcher/remote/request.h), or "-" if the request is the first
/// line of standard input. Returns the exit code of the requested command.
[[nodiscard]] int serve_remote_call(Cli& cli, std::string_view word);

/// Runs `dlrun --rsync-shell NAME RSYNC_HOST ARGV...`, which rsync calls as its remote shell: runs
/// argv on the host NAME and returns the exit code of argv. RSYNC_HOST is the text before the colon
/// in rsync's own arguments; dlrun ignores it.
[[nodiscard]] int run_rsync_shell(const Cli& cli, const std::string& name,
                                  std::vector<std::string> argv);

}  // namespace dlrun
