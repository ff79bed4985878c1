#pragma once
// The page's style sheet, with its colours.

#include <string_view>

namespace dlrun {

[[nodiscard]] std::string_view page_style();

}  // namespace dlrun
