#pragma once
// Generates docs/dlrun.1, the manual page of the commands and the keys.

#include <string>

#include "launcher/help/command_table.h"

namespace dlrun {

/// Returns the page in the `man` macros of roff. The page has no date, so that its bytes are equal
/// on every machine.
[[nodiscard]] std::string man_page(const CommandTable& table);

}  // namespace dlrun
