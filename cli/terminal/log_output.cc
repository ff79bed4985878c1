// Splits the bytes of a log into UTF-8 characters and escape sequences, and shows, escapes or drops
// each of them. The log arrives in pieces. If a piece ends inside a character or a sequence, the
// incomplete bytes wait for the next piece.

#include "cli/terminal/log_output.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <vector>

#include "cli/terminal/print.h"
#include "cli/terminal/stream.h"
#include "common/text.h"

namespace dlrun {
namespace {

constexpr std::size_t kLongestSequenceBytes = 48;
constexpr std::string_view kClearLine = "\033[K", kNoColours = "\033[0m";

bool is_parameter(char c) {
  return (c >= '0' && c <= '9') || c == ';';
}

/// Returns true if the parameters of an SGR sequence only set the style of visible text (ECMA-48,
/// 8.3.117). 8 conceals text, but inside 38;5;8 it is a colour. 58, the colour of underlines, is
/// not allowed: a terminal that does not support it reads 58;5;8 as "blink" and "conceal".
bool is_visible_style(std::string_view parameters) {
  const auto numbers = split(parameters, ';');
  for (std::size_t at = 0; at < numbers.size(); ++at) {
    const auto number =
        numbers[at].empty() ? std::optional<std::int64_t>(0) : parse_int(numbers[at]);
    if (!number || *number > 107 || *number == 8 || *number == 58) return false;
    if (*number != 38 && *number != 48) continue;
    if (at + 1 >= numbers.size()) return false;
    const std::size_t skipped = numbers[at + 1] == "5" ? 2 : numbers[at + 1] == "2" ? 4 : 0;
    if (skipped == 0 || at + skipped >= numbers.size()) return false;
    at += skipped;
  }
  return true;
}

/// Returns the length of the sequence ESC [ PARAMETERS LAST with which `bytes` begins. LAST is the
/// first byte that is no parameter. Returns 0 if the second byte is not '[', or if the sequence is
/// longer than kLongestSequenceBytes. Returns more than bytes.size() if LAST is still missing.
std::size_t sequence_length(std::string_view bytes) {
  if (bytes.size() > 1 && bytes[1] != '[') return 0;
  std::size_t at = 2;
  while (at < bytes.size() && is_parameter(bytes[at])) ++at;
  return at < kLongestSequenceBytes ? at + 1 : 0;
}

/// Returns the length in bytes of the UTF-8 character that starts with this byte; 1 for a byte that
/// starts no character.
std::size_t character_length(char first) {
  const auto lead = static_cast<unsigned char>(first);
  if (lead < 0xc2 || lead > 0xf4) return 1;
  return lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
}

}  // namespace

std::string LogFilter::filter_bytes(std::string_view bytes, bool is_last) {
  std::string shown;
  shown.reserve(bytes.size());
  while (!bytes.empty()) {
    const char first = bytes[0];
    std::size_t length = 1;
    if (first == '\033') {
      length = std::max<std::size_t>(sequence_length(bytes), 1);
      if (length > bytes.size() && !is_last) break;
      const char letter = length > 2 && length <= bytes.size() ? bytes[length - 1] : '\0';
      if (letter == 'm' && is_visible_style(bytes.substr(2, length - 3))) {
        if (colour_) shown += bytes.substr(0, length);
        is_coloured_ = colour_;
      } else if (letter != 'K') {
        length = 1;
        shown += printable(bytes.substr(0, 1));
      }
    } else if (first == '\r') {
      if (bytes.size() == 1 && !is_last) break;
      const bool is_line_end = bytes.size() > 1 && bytes[1] == '\n';
      if (!is_line_end && colour_) shown += "\r" + std::string(kClearLine);
      if (!is_line_end && !colour_) shown += '\n';
    } else if (first == '\n' || first == '\t') {
      shown += first;
    } else {
      length = std::min(character_length(first), bytes.size());
      if (length < character_length(first) && !is_last) break;
      // Only the first byte of a malformed character is escaped, because the bytes after it may be
      // valid characters.
      if (!is_utf8(bytes.substr(0, length))) length = 1;
      // U+FE0E and U+FE0F select the style of the emoji before them. printable() would escape these
      // invisible characters, but in a log they cannot deceive the reader.
      const auto character = bytes.substr(0, length);
      const bool is_emoji_style = character == "\ufe0e" || character == "\ufe0f";
      shown += is_emoji_style ? std::string(character) : printable(character);
    }
    bytes.remove_prefix(length);
  }
  waiting_ = bytes;
  return shown;
}

std::string LogFilter::pass(std::string_view bytes) {
  return filter_bytes(std::exchange(waiting_, {}).append(bytes), false);
}

std::string LogFilter::finish() {
  std::string shown = filter_bytes(std::exchange(waiting_, {}), true);
  if (std::exchange(is_coloured_, false)) shown += kNoColours;
  return shown;
}

LogOutput::LogOutput(bool is_raw, bool colour)
    : is_filtered_(!is_raw && is_output_terminal()), filter_(colour) {}

bool LogOutput::print(std::string_view bytes) {
  return is_filtered_ ? write_to(stdout, filter_.pass(bytes)) : write_to(stdout, bytes);
}

void LogOutput::finish() {
  if (is_filtered_) write_to(stdout, filter_.finish());
}

}  // namespace dlrun
