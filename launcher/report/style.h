#pragma once
// The page's style sheet, with its colours.

#include <string_view>

namespace dlrun {

/// Returns the text of the style sheet (CSS).
[[nodiscard]] std::string_view page_style();

}  // namespace dlrun
