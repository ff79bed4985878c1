#pragma once
// `dlrun --remote WORD`, which dlrun itself calls over ssh on a host.

#include <string>
#include <string_view>
#include <vector>

#include "cli/cli.h"

namespace dlrun {

/// Serves the request of a word and returns the exit code of its command.
[[nodiscard]] int run_remote_side(Cli& cli, std::string_view word);

/// `dlrun --rsync-shell NAME PLACE WORDS...`, which rsync calls as its remote shell: runs the words
/// on the host. The shell there sees only dlrun's own word, and its output passes without what the
/// files of that shell print.
[[nodiscard]] int run_rsync_shell(Cli& cli, const std::string& name,
                                  std::vector<std::string> words);

}  // namespace dlrun
