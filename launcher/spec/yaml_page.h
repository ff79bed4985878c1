#pragma once
// Collects lines of YAML with their comments aligned in one column, for the specs that dlrun
// writes.

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace dlrun {

class YamlPage {
 public:
  void begin_section(std::string_view key) { text_ += fmt::format("\n{}:\n", key); }
  /// Adds a line. The comment must be one line of printable text.
  void add_line(std::string_view text, std::string_view comment = "") {
    text_ += comment.empty() ? std::string(text)
                             : fmt::format("{:<{}}# {}", text,
                                           std::max(kCommentColumn, text.size() + 2), comment);
    text_ += '\n';
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  static constexpr std::size_t kCommentColumn = 40;
  std::string text_;
};

}  // namespace dlrun
