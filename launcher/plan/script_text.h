#pragma once
// Builds the lines of a script. A line can have a comment, such as the key that sets it. The
// comments are aligned in one column. Only the files that render scripts include this file.

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace dlrun {

class ScriptText {
 public:
  /// Adds a line. `code` must not end within quotes, or the comment would become part of the code.
  /// The comment must be one line of printable text.
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
