#pragma once
// Escapes text for HTML and SVG.

#include <string>
#include <string_view>

namespace dlrun {

/// Escapes text for HTML, between tags or in a quoted attribute. Makes control characters visible.
[[nodiscard]] std::string escape_html(std::string_view text);
/// Escapes text line by line and keeps the newlines.
[[nodiscard]] std::string escape_html_lines(std::string_view text);

}  // namespace dlrun
