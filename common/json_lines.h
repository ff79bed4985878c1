#pragma once
// JSON Lines with a checksum in every line, for logs that must survive an interrupted write.
//
// A line is {"...":...,"crc":"89abcdef"}. The value of crc is the CRC-32 (zlib's polynomial) of the
// line's bytes before `,"crc":`, as eight lower-case hex digits. The incomplete end of a file
// consists of the lines at its end that have a wrong checksum or no newline.

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/result.h"

namespace dlrun {

/// Returns the object as a line with checksum and newline. object: a non-empty JSON object without
/// a key "crc".
[[nodiscard]] std::string to_checked_line(const nlohmann::ordered_json& object);

/// Returns the line of an object that is already text. object: ends with its closing brace.
[[nodiscard]] std::string checked_line_of_text(std::string_view object);

/// Returns true if the line (without its newline) ends with the checksum of its bytes.
[[nodiscard]] bool has_valid_checksum(std::string_view line);

/// Returns the object of a line (without its newline), with "crc" removed. Returns nullopt if the
/// checksum is missing or wrong, or the line is not an object within the limits of
/// common/bounded_json.h.
[[nodiscard]] std::optional<nlohmann::ordered_json> parse_checked_line(std::string_view line);

struct CheckedLines {
  std::vector<nlohmann::ordered_json> objects;  ///< in the order of the file, "crc" removed
  /// Offset of the end of the last good line; a writer cuts off the incomplete end, which begins
  /// here.
  std::size_t checked_end = 0;
  /// Number of skipped lines with wrong checksums before the last good line.
  std::size_t damaged_line_count = 0;
  bool has_incomplete_end = false;
};

/// Parses lines. Skips damaged lines, and counts those before the last good line. Never fails. Use
/// this function for short texts; LineReader reads files of any size.
[[nodiscard]] CheckedLines parse_checked_lines(std::string_view text);

/// Maximum length of a line, in bytes, without its newline. A longer line is damaged, or another
/// program wrote it.
inline constexpr std::size_t kLongestLineBytes = 2U << 20U;

/// Reads the lines of a range of a file one by one, with a buffer of bounded size. Does
/// not own the descriptor.
class LineReader {
 public:
  /// Reads from offset `begin` to `end`, or to the end of the file if the file is shorter.
  LineReader(int fd, off_t begin, off_t end)
      : fd_(fd), at_(begin), line_offset_(begin), next_offset_(begin), end_(end) {}

  /// Returns the next line without its newline; nullopt at the end, or if reading fails. The view
  /// is valid until the next call. Bytes without a newline at the end are not returned. Lines of
  /// more than kLongestLineBytes are skipped and counted.
  [[nodiscard]] std::optional<std::string_view> next();

  /// The offset in the file of the line that the latest call of next() returned, and the offset
  /// after the newline of this line.
  [[nodiscard]] off_t line_begin() const { return line_offset_; }
  [[nodiscard]] off_t line_end() const { return next_offset_; }
  [[nodiscard]] std::size_t long_line_count() const { return long_line_count_; }
  /// Returns true if the range ends with bytes that have no newline. Valid after next() has
  /// returned nullopt.
  [[nodiscard]] bool has_unfinished_line() const { return has_unfinished_line_; }

 private:
  /// Appends more bytes of the file to the buffer. Returns false at the end, or if reading fails.
  bool fill();

  int fd_;
  off_t at_;                  ///< offset in the file of the next byte to read
  off_t line_offset_;         ///< line_begin()
  off_t next_offset_;         ///< line_end()
  off_t end_;                 ///< end of the range
  std::string buffer_;        ///< bytes of the file up to offset at_
  std::size_t begin_ = 0;     ///< offset of the next line in buffer_
  std::size_t size_ = 0;      ///< number of bytes in buffer_
  std::size_t searched_ = 0;  ///< number of bytes after begin_ that have no newline
  std::size_t long_line_count_ = 0;
  bool has_unfinished_line_ = false;
};

/// Returns the end offset of the file's last line with a correct checksum. The bytes after this
/// line are an incomplete end, which a writer cuts off before it appends. Returns 0 if there is no
/// such line. Reads only the last 4 MiB of the file if they contain such a line. size: the file's
/// size in bytes.
[[nodiscard]] off_t end_of_checked_lines(int fd, off_t size);

}  // namespace dlrun
