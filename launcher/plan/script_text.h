#pragma once
// Lines of a script, each with the spec's key that made it as a comment in one column. Private to
// rendering.

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace dlrun {

class ScriptText {
 public:
  /// code must be whole: a comment after it must not become part of a word. The comment is one line
  /// of printable text.
  void line(std::string_view code, std::string_view comment = {}) {
    text_ += code;
    if (!comment.empty()) {
      const auto start = code.rfind('\n');
      const std::size_t width =
          start == std::string_view::npos ? code.size() : code.size() - start - 1;
      text_ += fmt::format("{:{}}  # {}", "", width < kCommentColumn ? kCommentColumn - width : 0,
                           comment);
    }
    text_ += '\n';
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  static constexpr std::size_t kCommentColumn = 40;
  std::string text_;
};

}  // namespace dlrun
