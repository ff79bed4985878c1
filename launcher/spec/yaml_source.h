#pragma once
// The text of a YAML file as yaml-cpp gets it, and what yaml-cpp's events do not tell about it.
//
// yaml-cpp checks neither the encoding nor control characters, knows no line breaks but \n and
// \r\n, and takes '?' for an indicator inside a word in brackets ("[a?b]"). The source refuses
// wrong encodings and control characters, and hands yaml-cpp a text with the same lines and columns
// that yaml-cpp reads as meant.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "launcher/spec/yaml_document.h"
#include "launcher/spec/yaml_tree.h"

namespace dlrun {

class YamlSource {
 public:
  /// A position in text(). Bytes count from 0, lines too.
  struct At {
    std::size_t offset = 0, line_start = 0;
    int line = 0;
    [[nodiscard]] std::size_t column() const { return offset - line_start; }  ///< bytes, from 0
  };
  /// A text in quotes, as the file has it.
  struct Quoted {
    std::size_t end = 0;            ///< where the closing quote stands
    bool has_end = false;           ///< the closing quote is there
    bool has_bad_escape = false;    ///< \', which YAML does not have in double quotes
    bool ends_with_escape = false;  ///< before the last line breaks
    std::size_t last_breaks = 0;    ///< line breaks between the last character and the quote
  };

  /// Fails where the text is not UTF-8 or holds a control character.
  [[nodiscard]] static tl::expected<YamlSource, YamlProblem> prepare(std::string_view text);

  /// Returns the text for the parser.
  [[nodiscard]] const std::string& text() const { return text_; }
  /// Returns a value or name that the parser gave, with the characters that the file has.
  [[nodiscard]] std::string restored(std::string value) const;

  /// Returns the position of one of the parser's marks.
  [[nodiscard]] At at(int offset, int line, int column) const;
  /// Returns the end of text().
  [[nodiscard]] At end() const { return on_line_of(text_.size(), {}); }
  [[nodiscard]] YamlPlace place(const At& at) const;
  /// Returns the text from here on.
  [[nodiscard]] std::string_view rest(const At& at) const;

  /// Returns true where the '---' before a document stands.
  [[nodiscard]] bool is_document_start(const At& at) const;

  /// Returns the tab that stands before the first word of the line, which ends before at; nothing
  /// where there is none. A '-' or '?' that starts an item or a key is no word.
  [[nodiscard]] std::optional<At> tab_before(const At& at);
  /// Returns true where no word stands before at on its line.
  [[nodiscard]] bool is_first_on_line(const At& at);

  /// Goes past the anchor and the tag that start here, to the value that they belong to.
  [[nodiscard]] At past_properties(At at) const;
  /// Returns the tag that starts here, or on the same line after the anchor that starts here, as
  /// the file has it; an empty text without one.
  [[nodiscard]] std::string_view tag(const At& at) const;
  /// Looks at the text in quotes that starts here; returns nothing where another value starts.
  [[nodiscard]] std::optional<Quoted> quoted(const At& at) const;
  /// Goes past the ':' of the key that starts here; returns nothing where the key is no plain text
  /// or text in quotes on one line.
  [[nodiscard]] std::optional<At> past_key(At at) const;
  /// Goes past the '-' in this column (bytes, from 0) of the last line that holds, before at, more
  /// than white space and a comment; returns nothing where that line has no '-' there.
  [[nodiscard]] std::optional<At> past_dash_before(const At& at, std::size_t column) const;

  /// Fails on a directive before this position that is neither %TAG nor %YAML 1.1 or 1.2, or that
  /// no '---' follows.
  [[nodiscard]] tl::expected<void, YamlProblem> check_directives(const At& document) const;
  /// Returns the last line that starts with '%'; nothing where there is none.
  [[nodiscard]] std::optional<At> last_directive() const;

 private:
  struct Margin {
    std::size_t line_start = std::string::npos;
    std::size_t end = 0;                  ///< where the first word starts
    std::size_t tab = std::string::npos;  ///< the first one
  };

  /// Removes a last line of spaces alone that is as long as the indentation of the line before.
  /// yaml-cpp 0.7 takes it for text of a '>' block.
  void drop_last_indentation();
  [[nodiscard]] std::size_t end_of_property(std::size_t offset) const;
  /// Goes past white space, line breaks and comments.
  [[nodiscard]] std::size_t past_space(std::size_t offset) const;
  /// Returns the position of offset, which is not smaller than that of before.
  [[nodiscard]] At on_line_of(std::size_t offset, const At& before) const;
  const Margin& margin(const At& at);

  std::string text_;
  bool hides_questions_ = false;
  std::vector<std::size_t> continuation_bytes_;  ///< before each block of text_; empty for ASCII
  Margin margin_;  ///< of the line that was asked for last: many nodes can stand on a long line
};

}  // namespace dlrun
