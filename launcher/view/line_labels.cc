#include "launcher/view/line_labels.h"

#include <utility>

namespace dlrun {
namespace {

/// The largest size of a line, in bytes; longer lines are divided. A program may print any number
/// of bytes without a line break.
constexpr std::size_t kLongestLine = 64U << 10U;

}  // namespace

std::string LineLabeler::label_lines(std::string_view bytes) {
  if (label_.empty()) return std::string(bytes);
  std::string shown;
  while (!bytes.empty()) {
    const auto end = bytes.find_first_of("\r\n");
    const auto part = bytes.substr(0, end);
    const std::size_t room = kLongestLine - incomplete_line_.size();
    if (part.size() >= room) {
      incomplete_line_.append(part.substr(0, room));
      bytes.remove_prefix(room);
      shown += finish();
      continue;
    }
    incomplete_line_.append(part);
    if (end == std::string_view::npos) break;
    const bool is_line_feed = bytes[end] == '\n';
    bytes.remove_prefix(end + 1);
    if (!incomplete_line_.empty()) is_after_carriage_return_ = false;
    // The "\n" of "\r\n", and a "\r" before the text of a progress bar, end no line.
    const bool ends_line =
        is_line_feed ? !std::exchange(is_after_carriage_return_, false) : !incomplete_line_.empty();
    if (!ends_line) continue;
    shown += label_ + std::exchange(incomplete_line_, {}) + "\n";
    is_after_carriage_return_ = !is_line_feed;
  }
  return shown;
}

std::string LineLabeler::finish() {
  if (incomplete_line_.empty()) return {};
  return label_ + std::exchange(incomplete_line_, {}) + "\n";
}

}  // namespace dlrun
