#include "common/json_lines.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <zlib.h>

#include "common/bounded_json.h"
#include "common/text.h"

namespace dlrun {
namespace {

constexpr std::string_view kCrcFieldStart = ",\"crc\":\"";
constexpr std::size_t kCrcFieldLength = kCrcFieldStart.size() + 8 + 2;  // start, eight digits, "}

std::string checksum(std::string_view bytes) {
  const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  return fmt::format("{:08x}", crc);
}

}  // namespace

std::string to_checked_line(const nlohmann::ordered_json& object) {
  return checked_line_of_text(
      object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

std::string checked_line_of_text(std::string_view object) {
  std::string line(object.substr(0, object.size() - 1));  // without the closing brace
  return line + std::string(kCrcFieldStart) + checksum(line) + "\"}\n";
}

bool has_valid_checksum(std::string_view line) {
  if (line.size() < kCrcFieldLength + 1 || !line.ends_with("\"}")) return false;
  const std::string_view field = line.substr(line.size() - kCrcFieldLength);
  return field.starts_with(kCrcFieldStart) &&
         field.substr(kCrcFieldStart.size(), 8) ==
             checksum(line.substr(0, line.size() - kCrcFieldLength));
}

std::optional<nlohmann::ordered_json> parse_checked_line(std::string_view line) {
  if (!has_valid_checksum(line)) return std::nullopt;
  auto object = parse_json(std::string(line.substr(0, line.size() - kCrcFieldLength)) + "}");
  if (!object.is_object()) return std::nullopt;
  return object;
}

CheckedLines parse_checked_lines(std::string_view text) {
  CheckedLines lines;
  std::size_t damaged_since_valid = 0;
  std::size_t offset = 0;
  while (offset < text.size()) {
    const std::size_t end = text.find('\n', offset);
    if (end == std::string_view::npos) {
      lines.has_incomplete_end = true;
      break;
    }
    if (auto object = parse_checked_line(text.substr(offset, end - offset))) {
      lines.objects.push_back(std::move(*object));
      lines.damaged_line_count += damaged_since_valid;
      damaged_since_valid = 0;
      lines.checked_end = end + 1;
    } else {
      ++damaged_since_valid;
    }
    offset = end + 1;
  }
  if (damaged_since_valid > 0) lines.has_incomplete_end = true;
  return lines;
}

bool LineReader::fill() {
  constexpr std::size_t kChunk = 256U << 10U;
  if (begin_ > 0) {
    buffer_.erase(0, begin_);
    size_ -= begin_;
    begin_ = 0;
  }
  const auto wanted = static_cast<std::size_t>(std::min<off_t>(end_ - at_, kChunk));
  if (at_ >= end_) return false;
  buffer_.resize(size_ + wanted);
  ssize_t got = 0;
  while ((got = ::pread(fd_, buffer_.data() + size_, wanted, at_)) < 0 && errno == EINTR) {
  }
  if (got <= 0) return false;
  size_ += static_cast<std::size_t>(got);
  at_ += got;
  return true;
}

std::optional<std::string_view> LineReader::next() {
  bool is_long = false;
  line_offset_ = next_offset_;
  for (;;) {
    const auto* from = buffer_.data() + begin_ + searched_;
    const auto* newline =
        static_cast<const char*>(std::memchr(from, '\n', size_ - begin_ - searched_));
    if (newline != nullptr) {
      const auto length = static_cast<std::size_t>(newline - (buffer_.data() + begin_));
      const std::string_view line(buffer_.data() + begin_, length);
      begin_ += length + 1;
      searched_ = 0;
      next_offset_ = at_ - static_cast<off_t>(size_ - begin_);
      if (!is_long && length <= kLongestLineBytes) return line;
      if (!std::exchange(is_long, false)) ++long_line_count_;
      line_offset_ = next_offset_;
      continue;
    }
    searched_ = size_ - begin_;
    if (searched_ > kLongestLineBytes) {
      if (!std::exchange(is_long, true)) ++long_line_count_;
      begin_ = size_;
      searched_ = 0;
    }
    if (fill()) continue;
    has_unfinished_line_ = is_long || size_ > begin_;
    return std::nullopt;
  }
}

off_t end_of_checked_lines(int fd, off_t size) {
  constexpr off_t kTail = off_t{2} * kLongestLineBytes;
  const auto checked_end_from = [&](off_t begin) {
    off_t end = begin;
    LineReader lines(fd, begin, size);
    while (const auto line = lines.next()) {
      if (has_valid_checksum(*line)) end = lines.line_end();
    }
    return end;
  };
  if (size > kTail) {
    if (const off_t end = checked_end_from(size - kTail); end > size - kTail) return end;
  }
  return checked_end_from(0);
}

}  // namespace dlrun
