#pragma once
// Small text functions without locale or global state.

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

/// Splits text at each separator: "a,,b" has three parts, an empty text has one empty part.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);
/// Forbids temporary strings. The parts are views of the text, and a range-for destroys a temporary
/// text before it uses the parts.
template <typename Text>
requires std::same_as<Text, std::string> std::vector<std::string_view> split(Text&& text,
                                                                             char separator)
= delete;
/// Splits text at each of the separators, and leaves out empty parts.
[[nodiscard]] std::vector<std::string_view> split_words(std::string_view text,
                                                        std::string_view separators);

/// Returns the text without leading and trailing white space.
[[nodiscard]] std::string_view trim(std::string_view text);
/// Returns the text with "\n" in place of each "\r\n", which programs such as ssh write on a
/// terminal.
[[nodiscard]] std::string with_unix_line_ends(std::string_view text);
/// Returns the text with a to z in place of A to Z. Other characters stay, in every locale.
[[nodiscard]] std::string lower_case(std::string_view text);

/// Returns the parts with the separator between each two.
[[nodiscard]] std::string join(std::span<const std::string> parts, std::string_view separator);

/// Parses the whole text as a decimal integer. Returns nullopt for an empty text, a lone sign,
/// trailing bytes or overflow.
[[nodiscard]] std::optional<std::int64_t> parse_int(std::string_view text);

/// Parses the whole text as a finite decimal number, with or without exponent. Returns nullopt for
/// other text.
[[nodiscard]] std::optional<double> parse_double(std::string_view text);

/// Returns the Levenshtein distance with transpositions (optimal string alignment), for
/// spelling suggestions.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// Returns the candidate of which the word may be a misspelling: the one with the smallest edit
/// distance to the word. Returns nullopt if each distance is above max(1, length of the word / 3).
/// Capital and small letters count as equal.
[[nodiscard]] std::optional<std::string_view> nearest(std::string_view word,
                                                      std::span<const std::string_view> candidates);

/// Returns the length in bytes of the UTF-8 character at the start of the text; 0 if the character
/// is malformed. The text must not be empty.
[[nodiscard]] std::size_t utf8_character_length(std::string_view text);

/// Returns true if the text is well-formed UTF-8 (RFC 3629: no surrogates, no overlong forms).
[[nodiscard]] bool is_utf8(std::string_view text);

/// Returns the beginning of a text: at most this number of bytes, and only whole characters.
[[nodiscard]] std::string cut_text(std::string_view text, std::size_t bytes);

/// Returns true for bytes below 0x20 and for 0x7f.
[[nodiscard]] constexpr bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7f;
}

/// Returns the bytes as lower-case hex digits, two per byte.
[[nodiscard]] std::string to_hex(std::span<const std::uint8_t> bytes);
/// Parses hex digits, two per byte. Returns nullopt for other text.
[[nodiscard]] std::optional<std::vector<std::uint8_t>> from_hex(std::string_view hex);

/// Returns random bytes from the kernel as lower-case hex digits, two per byte. Throws if the
/// system has no source of random bytes: then the program ends, because a token that others can
/// guess would be worse. No other function of dlrun lets its caller get an exception on purpose
/// (result.h).
[[nodiscard]] std::string random_hex(std::size_t bytes);

/// Formats a time like 2026-11-21T12:30:00.123Z.
[[nodiscard]] std::string utc_timestamp(std::chrono::system_clock::time_point when);
/// Parses a time in the form of utc_timestamp(), with or without milliseconds. Returns seconds
/// since 1970; nullopt if the text does not begin with a time.
[[nodiscard]] std::optional<double> seconds_of_utc(std::string_view utc);

/// Makes text safe to print on a terminal: control, invisible and bidirectional characters and
/// malformed UTF-8 become \xNN.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace dlrun
