#pragma once
// Counts the columns that a text needs on a terminal, and cuts text to a number of columns.

#include <cstddef>
#include <string>
#include <string_view>

namespace dlrun {

/// Returns true unless `c` is a continuation byte of a UTF-8 character.
[[nodiscard]] constexpr bool is_character_start(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
}

/// Returns the number of characters in `text`. This number is the width of the text on a terminal
/// if no character is wide. A combining character counts as one character.
[[nodiscard]] std::size_t columns_of(std::string_view text);

/// Returns `text` if it has at most `kept` characters. Otherwise returns the first `kept`
/// characters and "...", together `kept` + 3 characters.
[[nodiscard]] std::string shortened(const std::string& text, std::size_t kept);

/// Returns `text` if it has at most `columns` characters. Otherwise returns the first characters
/// and "…", together `columns` characters.
[[nodiscard]] std::string cut(std::string_view text, std::size_t columns);

}  // namespace dlrun
