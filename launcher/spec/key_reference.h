#pragma once
// Renders the key table as the page docs/keys.md.

#include <string>

namespace dlrun {

[[nodiscard]] std::string key_reference_markdown();

}  // namespace dlrun
