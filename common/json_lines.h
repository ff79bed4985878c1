#pragma once
// JSON Lines with a checksum in every line, for logs that survive a torn write.
//
// A line is {"...":...,"crc":"89abcdef"}: crc is the CRC-32 (zlib's polynomial) of the line's bytes
// before `,"crc":`, as eight lower-case hex digits. A last line without newline or with a wrong
// checksum is a torn tail.

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/result.h"

namespace dlrun {

/// object must be a non-empty JSON object without a key "crc". The line ends with a newline.
[[nodiscard]] std::string to_checked_line(const nlohmann::ordered_json& object);

/// Returns the checked line of an object that is text already. The text ends with the object's
/// closing brace.
[[nodiscard]] std::string checked_line_of_text(std::string_view object);

/// True when the line (without its newline) ends with the checksum of its bytes.
[[nodiscard]] bool has_checksum(std::string_view line);

/// The object of a line (without its newline), "crc" removed. Nothing when the line has no checksum
/// that fits, or is no object within the limits of common/bounded_json.h.
[[nodiscard]] std::optional<nlohmann::ordered_json> parse_checked_line(std::string_view line);

struct CheckedLines {
  std::vector<nlohmann::ordered_json> objects;  ///< in file order, "crc" removed
  std::size_t valid_bytes =
      0;  ///< length of the prefix that holds them: where a writer cuts a torn tail
  std::size_t damaged_lines =
      0;  ///< lines before the tail whose checksum does not fit; they are left out
  bool has_torn_tail = false;
};

/// Never fails: what can be read is read, what cannot is counted. For short texts; files of any
/// size go through LineReader.
[[nodiscard]] CheckedLines parse_checked_lines(std::string_view text);

/// No line of ours is longer. A longer one is damage, or another's file.
inline constexpr std::size_t kLongestLineBytes = 2U << 20U;

/// The lines of a part of a file, one after another, through a buffer of bounded size. Owns no
/// descriptor.
class LineReader {
 public:
  /// Reads from begin up to end (where the file ends before that, up to its end).
  LineReader(int fd, off_t begin, off_t end)
      : fd_(fd), at_(begin), line_(begin), next_(begin), end_(end) {}

  /// The next line without its newline; the view lives until the next call. Nothing at the end;
  /// what stands there without a newline is no line. A line longer than kLongestLineBytes is passed
  /// over and counted.
  [[nodiscard]] std::optional<std::string_view> next();

  /// Where the line that next() gave begins, and where the one after it does.
  [[nodiscard]] off_t line_begin() const { return line_; }
  [[nodiscard]] off_t line_end() const { return next_; }
  [[nodiscard]] std::size_t long_lines() const { return long_lines_; }
  /// True when bytes without a newline stand at the end.
  [[nodiscard]] bool has_rest() const { return has_rest_; }

 private:
  /// Reads more bytes behind those in the buffer. False at the end, and where reading fails.
  bool fill();

  int fd_;
  off_t at_, line_, next_, end_;
  std::string buffer_;        ///< bytes of the file up to at_
  std::size_t begin_ = 0;     ///< of the next line in buffer_
  std::size_t size_ = 0;      ///< bytes in buffer_
  std::size_t searched_ = 0;  ///< behind begin_, without a newline
  std::size_t long_lines_ = 0;
  bool has_rest_ = false;
};

/// The end of the last whole line of the file with a fitting checksum: what stands behind it is a
/// torn tail, which a writer cuts off before it appends. Reads the file's end alone where a good
/// line is in it.
[[nodiscard]] off_t end_of_checked_lines(int fd, off_t size);

}  // namespace dlrun
