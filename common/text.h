#pragma once
// Small things done to text. No locale, no allocation surprises, no global state.

#include <chrono>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace dlrun {

/// The parts between separators; "a,,b" has three. An empty text has one empty part.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);
/// Not of a temporary string: the parts are views into text, and would outlive it in a range-for.
template <typename Text>
requires std::same_as<Text, std::string> std::vector<std::string_view> split(Text&& text,
                                                                             char separator)
= delete;

/// Without leading and trailing spaces, tabs and line ends.
[[nodiscard]] std::string_view trim(std::string_view text);

[[nodiscard]] std::string join(std::span<const std::string> parts, std::string_view separator);

/// The whole text as a decimal integer; nothing for an empty text, a sign without digits, trailing
/// bytes or overflow.
[[nodiscard]] std::optional<std::int64_t> parse_int(std::string_view text);

/// The whole text as a finite decimal number, with or without exponent.
[[nodiscard]] std::optional<double> parse_double(std::string_view text);

/// Levenshtein distance with transpositions (optimal string alignment), for spelling suggestions.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to word, if it is near enough to be a spelling error of it (distance <=
/// max(1, length / 3)).
[[nodiscard]] std::optional<std::string_view> nearest(std::string_view word,
                                                      std::span<const std::string_view> candidates);

/// Length in bytes of the well-formed UTF-8 character at the start of text, which is not empty; 0
/// when there is none.
[[nodiscard]] std::size_t utf8_length(std::string_view text);

/// True when every byte sequence is well-formed UTF-8 (RFC 3629: no surrogates, no overlong forms).
[[nodiscard]] bool is_utf8(std::string_view text);

/// True for a byte below 0x20 or 0x7f.
[[nodiscard]] constexpr bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7f;
}

[[nodiscard]] std::string to_hex(std::span<const std::uint8_t> bytes);
[[nodiscard]] std::optional<std::vector<std::uint8_t>> from_hex(std::string_view hex);

/// n random bytes of the kernel, as 2n lower-case hex digits.
[[nodiscard]] std::string random_hex(std::size_t bytes);

/// 2026-11-21T12:30:00.123Z
[[nodiscard]] std::string utc_timestamp(std::chrono::system_clock::time_point when);

/// Safe to print on a terminal: control, hidden and direction-turning characters and malformed
/// UTF-8 as \xNN.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace dlrun
