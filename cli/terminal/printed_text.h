#pragma once
// Text for people. Every inserted value is escaped; only Text itself adds newlines and colour.

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/columns.h"
#include "common/shown_data.h"
#include "common/text.h"

namespace dlrun {

enum class Style { kNone, kBold, kDim, kRed, kGreen, kYellow, kBlue, kCyan };

/// A value with a style, for Text::add() and print().
struct Styled {
  Style style = Style::kNone;
  std::string text;
};
[[nodiscard]] inline Styled styled(Style style, std::string_view text) {
  return {style, std::string(text)};
}

class Text;

namespace text_detail {

/// Returns an argument in the form of Text::marked_: text is escaped, a control character marks the
/// beginning and the end of a style, and a number stays a number.
[[nodiscard]] std::string marked(const Styled& value);
[[nodiscard]] std::string marked(const Text& value);
template <typename T>
[[nodiscard]] auto marked(const T& value) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    return printable(std::string_view(value));
  } else {
    static_assert(std::is_arithmetic_v<T>, "text, a styled value, another Text, or a number");
    return value;
  }
}
template <typename T>
using Marked = std::decay_t<decltype(marked(std::declval<const T&>()))>;

}  // namespace text_detail

/// A format string that is a compile-time constant of dlrun; its newlines and tabs are layout.
template <typename... Args>
using TextFormat = fmt::format_string<text_detail::Marked<Args>&...>;

/// A text with escaped values: control characters, hidden characters, characters that change the
/// direction of text, and malformed UTF-8 appear as `\xNN`.
class Text {
 public:
  Text() = default;

  /// Appends the format with the escaped arguments. A width in the format (`{:<12}`) does not work
  /// for a Styled or a Text.
  template <typename... Args>
  Text& add(std::type_identity_t<TextFormat<Args...>> format, const Args&... args) {
    return add_formatted(format, text_detail::marked(args)...);
  }
  Text& add(const Styled& value);
  Text& add(const Text& other);

  /// Returns text of several lines: keeps newlines and tabs, and escapes as printable() does. Use
  /// this only for text in which a false line break cannot deceive the reader: dlrun's own layout,
  /// error messages, and the output of Slurm's commands.
  [[nodiscard]] static Text of_lines(std::string_view lines, Style style = Style::kNone);

  /// Returns the bytes to print, with the escape sequences of the styles if `colour`.
  [[nodiscard]] std::string render(bool colour) const;
  [[nodiscard]] std::string plain() const { return render(false); }
  /// Returns the number of characters in the longest line. This number is the width of the line on
  /// a terminal if no character is wide.
  [[nodiscard]] std::size_t columns() const;
  [[nodiscard]] bool empty() const { return marked_.empty(); }

 private:
  friend std::string text_detail::marked(const Text& value);
  template <typename... Shown>
  Text& add_formatted(fmt::string_view format, const Shown&... shown) {
    marked_ += fmt::vformat(format, fmt::make_format_args(shown...));
    return *this;
  }

  /// Escaped values, dlrun's own newlines and tabs, and two control characters that begin and end
  /// a style.
  std::string marked_;
};

/// Returns a new Text with the format and the escaped arguments.
template <typename... Args>
[[nodiscard]] Text text(std::type_identity_t<TextFormat<Args...>> format, const Args&... args) {
  return std::move(Text().add(format, args...));
}

/// Returns `json` with \uXXXX for the characters that printable() escapes. json: the output of a
/// serialiser, which has already escaped the control characters below U+0020 and replaced bytes
/// that are not UTF-8.
[[nodiscard]] std::string printable_json(std::string_view json);

/// Returns a table in which each column is as wide as its widest value. The first row has the
/// titles, which are bold. The values are escaped.
[[nodiscard]] Text table(const TableRows& rows);
/// Returns the lines, indented. Values start after the labels, which are `label_width` columns
/// wide. The values of bad lines are red.
[[nodiscard]] Text labelled(const LabelledLines& lines, std::size_t label_width);
[[nodiscard]] Text bar_chart(const BarChart& chart);

}  // namespace dlrun
