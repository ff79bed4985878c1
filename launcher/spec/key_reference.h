#pragma once
// docs/keys.md: the key table as a page.

#include <string>

namespace dlrun {

[[nodiscard]] std::string key_reference_markdown();

}  // namespace dlrun
