#pragma once
// The style sheet of the pages of `dlrun report`, with their colours.

#include <string_view>

namespace dlrun {

/// Returns the text of the style sheet (CSS).
[[nodiscard]] std::string_view page_style();

}  // namespace dlrun
