#pragma once
// Builds lines with a limited number of columns, for the screen of `dlrun top`.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cli/terminal/printed_text.h"

namespace dlrun {

/// Builds a line of coloured parts and keeps track of the remaining columns.
class Line {
 public:
  explicit Line(std::size_t columns) : columns_left_(columns) {}
  /// Adds as much of the escaped value as fits.
  Line& add(std::string_view value, Style style = Style::kNone);
  /// Adds spaces up to `column`. line_width: the number that the constructor got.
  Line& pad_to(std::size_t column, std::size_t line_width);
  [[nodiscard]] const Text& text() const { return text_; }

 private:
  std::size_t columns_left_;
  Text text_;
};

/// Returns a bar of `width` characters. `fraction`, from 0 to 1, is the filled part of the bar,
/// rounded to an eighth of a character.
[[nodiscard]] std::string bar(double fraction, std::size_t width);

/// Returns a line of at most `width` block characters of eight heights. Divides `values` into
/// equal parts, one per block; each block shows the mean of its part, scaled between the smallest
/// and the largest mean. Returns "" for fewer than two values, for width 0, and if a mean or the
/// range of the means is not a finite number.
[[nodiscard]] std::string sparkline(const std::vector<double>& values, std::size_t width);

}  // namespace dlrun
