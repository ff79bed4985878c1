#pragma once
// Prepares the text of a YAML file for yaml-cpp, and finds facts about the text that yaml-cpp's
// events do not contain.
//
// yaml-cpp checks neither the encoding nor control characters, supports only the line breaks \n and
// \r\n, and reads a '?' inside a word in brackets ("[a?b]") as an indicator. YamlSource refuses
// wrong encodings and control characters. The text that it prepares has the same lines and columns,
// and yaml-cpp reads it correctly.

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
  /// A position in text(). Bytes and lines are counted from 0.
  struct Position {
    std::size_t offset = 0, line_start = 0;
    int line = 0;
    [[nodiscard]] std::size_t column() const { return offset - line_start; }  ///< bytes, from 0
  };
  /// Facts about a text in quotes, as it is written in the file.
  struct Quoted {
    std::size_t end = 0;          ///< the offset of the closing quote, or of the end of the text
    bool has_end = false;         ///< the closing quote exists
    bool has_bad_escape = false;  ///< \', which YAML does not have in double quotes
    /// Number of line breaks between the last word and the closing quote.
    std::size_t breaks_before_end = 0;
    bool ends_with_escape = false;  ///< the last word ends with an escape
  };

  /// Prepares a text. Fails if the text is not UTF-8 or holds a character that YAML does not allow,
  /// such as a control character.
  [[nodiscard]] static tl::expected<YamlSource, YamlProblem> prepare(std::string_view text);

  /// Returns the text for the parser.
  [[nodiscard]] const std::string& text() const { return text_; }
  /// Converts a value, or the name of an anchor or tag, from the parser back to the characters of
  /// the file.
  [[nodiscard]] std::string restored(std::string value) const;

  /// Returns the position of one of the parser's marks.
  [[nodiscard]] Position position_of_mark(int offset, int line, int column) const;
  /// Returns the end of text().
  [[nodiscard]] Position end() const { return position_of(text_.size(), {}); }
  /// Returns the line and column of a position.
  [[nodiscard]] YamlPlace place(const Position& at) const;
  /// Returns the text from this position to its end.
  [[nodiscard]] std::string_view rest(const Position& at) const;

  /// Returns true if the '---' before a document starts at this position.
  [[nodiscard]] bool is_document_start(const Position& at) const;

  /// Returns the first tab in the margin of the line of `at`, if the tab precedes this position.
  /// The margin is the part of a line before its first word: white space, and any '-' or '?' that
  /// starts an item or a key.
  [[nodiscard]] std::optional<Position> tab_before(const Position& at);
  /// Returns true if only the margin precedes `at` on its line.
  [[nodiscard]] bool is_first_on_line(const Position& at);

  /// Returns the position of the first word of the line of `at`, after the margin.
  [[nodiscard]] Position first_word(const Position& at);
  /// Searches backwards from `at` for a line that is neither blank nor only a comment. Returns the
  /// position of its first word; nullopt if there is no such line.
  [[nodiscard]] std::optional<Position> first_word_before(Position at);
  /// Returns the text from this position to the end of its line.
  [[nodiscard]] std::string_view rest_of_line(const Position& at) const;

  /// Returns the position where the value starts, after the anchor and the tag at this position.
  [[nodiscard]] Position past_properties(Position at) const;
  /// Returns the tag at this position, or after an anchor at this position on the same line, as
  /// written in the file. Returns an empty text if there is no tag.
  [[nodiscard]] std::string_view tag(const Position& at) const;
  /// Returns the text in quotes that starts at this position; nullopt if another value starts at
  /// this position.
  [[nodiscard]] std::optional<Quoted> quoted(const Position& at) const;
  /// Returns the position after the ':' of the key that starts at this position. Returns nullopt if
  /// the key is not a plain text or a text in quotes on one line.
  [[nodiscard]] std::optional<Position> past_key(Position at) const;
  /// Searches backwards from `at` for a line that is neither blank nor only a comment. Returns the
  /// position after the '-' in this column (bytes, from 0) of that line; nullopt if the line has no
  /// '-' there, or if there is no such line.
  [[nodiscard]] std::optional<Position> past_dash_before(const Position& at,
                                                         std::size_t column) const;

  /// Fails if a directive before the document is not %TAG, %YAML 1.1 or %YAML 1.2, or if no '---'
  /// follows the directives.
  [[nodiscard]] tl::expected<void, YamlProblem> check_directives(const Position& document) const;
  /// Returns the last line that starts with '%'; nullopt if there is none.
  [[nodiscard]] std::optional<Position> last_directive() const;

 private:
  /// The margin of a line; see tab_before().
  struct Margin {
    std::size_t line_start = std::string::npos;
    std::size_t end = 0;                  ///< the offset of the first word
    std::size_t tab = std::string::npos;  ///< the offset of the first tab
  };

  /// Removes the last line if it consists of spaces only and is as long as the indentation of the
  /// line before. yaml-cpp 0.7 would read these spaces as text of a '>' block.
  void drop_last_indentation();
  /// Returns the end of the anchor or tag at this offset.
  [[nodiscard]] std::size_t end_of_property(std::size_t offset) const;
  /// Returns the offset after white space, line breaks and comments.
  [[nodiscard]] std::size_t past_space(std::size_t offset) const;
  /// Returns the position of offset. `before` is the position of the same or an earlier offset.
  [[nodiscard]] Position position_of(std::size_t offset, const Position& before) const;
  const Margin& margin(const Position& at);

  std::string text_;
  /// text_ has substitutes for some '?'. restored() turns them back.
  bool has_question_substitutes_ = false;
  /// The number of UTF-8 continuation bytes before each block of text_; empty if text_ is ASCII.
  std::vector<std::size_t> continuation_counts_;
  /// A cache of the margin that margin() found most recently, because a long line can hold many
  /// nodes.
  Margin margin_;
};

}  // namespace dlrun
