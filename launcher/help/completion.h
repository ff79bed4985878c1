#pragma once
// Generates the completion scripts for bash, zsh and fish from the table of commands and the table
// of keys.

#include <string>

#include "common/result.h"
#include "launcher/help/command_table.h"

namespace dlrun {

/// Returns the completion script for `shell`: bash, zsh or fish. Fails with kUsage for any other.
[[nodiscard]] Result<std::string> completion_script(const CommandTable& table,
                                                    const std::string& shell);

}  // namespace dlrun
