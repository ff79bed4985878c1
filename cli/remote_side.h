#pragma once
// `dlrun --remote WORD`, which the caller's dlrun starts over ssh on a host.

#include <string>
#include <string_view>
#include <vector>

#include "cli/cli.h"

namespace dlrun {

/// The variable with the file of git_state_bytes(), which `dlrun --remote` sets for `submit`.
inline constexpr char kGitStateVariable[] = "DLRUN_GIT_STATE";

/// Serves the request in a word and returns the exit code of its command.
[[nodiscard]] int run_remote_side(Cli& cli, std::string_view word);

/// `dlrun --rsync-shell NAME PLACE ARGV...`, which rsync calls as its remote shell: runs argv on
/// the host NAME and returns its exit code. The host's shell sees only one word, and the text that
/// its start files print is dropped.
[[nodiscard]] int run_rsync_shell(Cli& cli, const std::string& name, std::vector<std::string> argv);

}  // namespace dlrun
