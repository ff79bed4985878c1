#pragma once
// Completion scripts for bash, zsh and fish, made from the tree of commands: what the parser knows,
// the shell completes.

#include <string>

#include "common/result.h"

namespace CLI {
class App;
}

namespace dlrun {

/// Fails with kUsage for another shell.
[[nodiscard]] Result<std::string> completion_script(const CLI::App& root, const std::string& shell);

}  // namespace dlrun
