#pragma once
// docs/dlrun.1: the commands and keys as a manual page.

#include <string>

namespace CLI {
class App;
}

namespace dlrun {

/// In the man macros. The same bytes everywhere: no date.
[[nodiscard]] std::string man_page(const CLI::App& root);

}  // namespace dlrun
