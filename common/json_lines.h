#pragma once
// JSON Lines with a checksum in every line, for logs that survive a torn write.
//
// A line is {"...":...,"crc":"89abcdef"}: crc is the CRC-32 (zlib's polynomial) of the line's bytes before `,"crc":`,
// as eight lower-case hex digits. A last line without newline or with a wrong checksum is a torn tail.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/result.h"

namespace dlrun {

/// object must be a non-empty JSON object without a key "crc". The line ends with a newline.
[[nodiscard]] std::string to_checked_line(const nlohmann::ordered_json& object);

struct CheckedLines {
  std::vector<nlohmann::ordered_json> objects;  ///< in file order, "crc" removed
  std::size_t valid_bytes = 0;    ///< length of the prefix that holds them: where a writer cuts a torn tail
  std::size_t damaged_lines = 0;  ///< lines before the tail whose checksum does not fit; they are left out
  bool has_torn_tail = false;
};

/// Never fails: what can be read is read, what cannot is counted.
[[nodiscard]] CheckedLines parse_checked_lines(std::string_view text);

}  // namespace dlrun
