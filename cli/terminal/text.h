#pragma once
// Text for people: values are escaped as they are put in, and only Text itself adds newlines and
// colour.

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/text.h"

namespace dlrun {

enum class Style { kNone, kBold, kDim, kRed, kGreen, kYellow, kBlue, kCyan };

/// A value with a style, for Text::add and print.
struct Styled {
  Style style = Style::kNone;
  std::string text;
};
[[nodiscard]] inline Styled styled(Style style, std::string_view text) {
  return {style, std::string(text)};
}

class Text;

namespace text_detail {

/// Returns a format's argument as it is put in: text escaped, a style marked, numbers unchanged.
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

/// A format of dlrun's own, known when it is compiled: its newlines and tabs are layout.
template <typename... Args>
using TextFormat = fmt::format_string<text_detail::Marked<Args>&...>;

/// No byte of a value can be a control character here, whatever the value was: control, hidden and
/// direction-turning characters and malformed UTF-8 are `\xNN`.
class Text {
 public:
  Text() = default;

  /// The format with the arguments' escaped text. A width in the format (`{:<12}`) does not go with
  /// a Styled or a Text.
  template <typename... Args>
  Text& add(std::type_identity_t<TextFormat<Args...>> format, const Args&... args) {
    return add_formatted(format, text_detail::marked(args)...);
  }
  Text& add(const Styled& value);
  Text& add(const Text& other);

  /// Text of several lines: newlines and tabs stay, everything else is escaped. Only for what
  /// cannot lie by a newline: what dlrun has laid out itself, error messages, and what Slurm's
  /// commands say.
  [[nodiscard]] static Text of_lines(std::string_view lines, Style style = Style::kNone);

  /// Returns the bytes to print, with escape sequences for the styles or without.
  [[nodiscard]] std::string render(bool colour) const;
  [[nodiscard]] std::string plain() const { return render(false); }
  /// Characters of the longest line; good where no character is wide.
  [[nodiscard]] std::size_t columns() const;
  [[nodiscard]] bool empty() const { return marked_.empty(); }

 private:
  friend std::string text_detail::marked(const Text& value);
  template <typename... Shown>
  Text& add_formatted(fmt::string_view format, const Shown&... shown) {
    marked_ += fmt::vformat(format, fmt::make_format_args(shown...));
    return *this;
  }

  /// Escaped values, dlrun's own newlines and tabs, and two control characters that begin and end a
  /// style.
  std::string marked_;
};

/// add() of an empty Text.
template <typename... Args>
[[nodiscard]] Text text(std::type_identity_t<TextFormat<Args...>> format, const Args&... args) {
  return std::move(Text().add(format, args...));
}

/// Columns on a terminal of text whose characters are all one column wide.
[[nodiscard]] std::size_t columns_of(std::string_view text);

/// The first characters of a value, with "..." for the rest where there is more.
[[nodiscard]] std::string shortened(const std::string& text, std::size_t columns);

/// Returns json with the characters that printable() escapes as \uXXXX. json: the output of a
/// serialiser, which has escaped the control characters below U+0020 and replaced what is not
/// UTF-8.
[[nodiscard]] std::string printable_json(std::string_view json);

/// Rows under their titles, columns as wide as they need to be.
[[nodiscard]] Text table(const std::vector<std::vector<std::string>>& rows);

}  // namespace dlrun
