#pragma once
// Joins strings at compile time, for constant tables.

#include <array>
#include <cstddef>
#include <string_view>

namespace dlrun {

/// The elements of kWords, joined with spaces, as characters. kJoined is a view of this array.
template <const auto& kWords>
inline constexpr auto kJoinedCharacters = [] {
  constexpr std::size_t kSize = [] {
    std::size_t size = kWords.size() - 1;
    for (const std::string_view word : kWords) size += word.size();
    return size;
  }();
  std::array<char, kSize> text{};
  std::size_t at = 0;
  for (const std::string_view word : kWords) {
    if (at > 0) text[at++] = ' ';
    for (const char letter : word) text[at++] = letter;
  }
  return text;
}();

/// The elements of kWords, joined with spaces. kWords: a constant array of string_views, not empty.
template <const auto& kWords>
inline constexpr std::string_view kJoined{kJoinedCharacters<kWords>.data(),
                                          kJoinedCharacters<kWords>.size()};

}  // namespace dlrun
