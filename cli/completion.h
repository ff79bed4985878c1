#pragma once
// Generates the completion scripts for bash, zsh and fish from the tree of commands, so that they
// always match the parser.

#include <string>

#include "common/result.h"

namespace CLI {
class App;
}

namespace dlrun {

/// Returns the completion script for `shell`: bash, zsh or fish. Fails with kUsage for any other.
[[nodiscard]] Result<std::string> completion_script(const CLI::App& root, const std::string& shell);

}  // namespace dlrun
