#include "common/json_lines.h"

#include <zlib.h>

#include "common/text.h"

namespace dlrun {
namespace {

constexpr std::string_view kMark = ",\"crc\":\"";
constexpr std::size_t kTailLength = kMark.size() + 8 + 2;  // mark, eight digits, "}

std::string checksum(std::string_view bytes) {
  const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  return fmt::format("{:08x}", crc);
}

/// The object without its checksum; nothing when the line is not one of ours.
std::optional<nlohmann::ordered_json> parse_line(std::string_view line) {
  if (line.size() < kTailLength + 1 || !line.ends_with("\"}")) return std::nullopt;
  const std::string_view body = line.substr(0, line.size() - kTailLength);
  const std::string_view tail = line.substr(body.size());
  if (!tail.starts_with(kMark) || tail.substr(kMark.size(), 8) != checksum(body)) return std::nullopt;
  auto object = nlohmann::ordered_json::parse(std::string(body) + "}", nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return std::nullopt;
  return object;
}

}  // namespace

std::string to_checked_line(const nlohmann::ordered_json& object) {
  std::string line = object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  line.pop_back();  // the closing brace
  return line + std::string(kMark) + checksum(line) + "\"}\n";
}

CheckedLines parse_checked_lines(std::string_view text) {
  CheckedLines lines;
  std::size_t damaged_since_valid = 0;
  std::size_t offset = 0;
  while (offset < text.size()) {
    const std::size_t end = text.find('\n', offset);
    if (end == std::string_view::npos) {
      lines.has_torn_tail = true;
      break;
    }
    if (auto object = parse_line(text.substr(offset, end - offset))) {
      lines.objects.push_back(std::move(*object));
      lines.damaged_lines += damaged_since_valid;
      damaged_since_valid = 0;
      lines.valid_bytes = end + 1;
    } else {
      ++damaged_since_valid;
    }
    offset = end + 1;
  }
  if (damaged_since_valid > 0) lines.has_torn_tail = true;
  return lines;
}

}  // namespace dlrun
