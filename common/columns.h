#pragma once
// Counts the columns of a text on a terminal, and shortens text to them.

#include <cstddef>
#include <string>
#include <string_view>

namespace dlrun {

/// Returns true unless `c` continues a character of UTF-8.
[[nodiscard]] constexpr bool is_character_start(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
}

/// Returns the number of characters in `text`: its width on a terminal if no character is wide.
[[nodiscard]] std::size_t columns_of(std::string_view text);

/// Returns the first characters of `text`, followed by "..." if it is longer than `columns`.
[[nodiscard]] std::string shortened(const std::string& text, std::size_t columns);

}  // namespace dlrun
