#include "cli/terminal/line.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace dlrun {

Line& Line::add(std::string_view value, Style style) {
  if (columns_left_ == 0) return *this;
  const std::string shown = cut(printable(value), columns_left_);
  columns_left_ -= std::min(columns_left_, columns_of(shown));
  text_.add(styled(style, shown));
  return *this;
}

Line& Line::pad_to(std::size_t column, std::size_t line_width) {
  const std::size_t used = line_width - columns_left_;
  return used < column ? add(std::string(column - used, ' ')) : *this;
}

std::string bar(double fraction, std::size_t width) {
  constexpr std::array<std::string_view, 8> kEighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths =
      static_cast<std::size_t>(std::lround(fraction * static_cast<double>(width) * 8));
  std::string text;
  for (std::size_t i = 0; i < eighths / 8; ++i) text += "█";
  text += kEighths[eighths % 8];
  for (std::size_t i = columns_of(text); i < width; ++i) text += "░";
  return text;
}

std::string sparkline(const std::vector<double>& values, std::size_t width) {
  constexpr std::array<std::string_view, 8> kHeights{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (values.size() < 2 || width == 0) return "";
  const std::size_t count = std::min(width, values.size());
  std::vector<double> means;
  for (std::size_t at = 0; at < count; ++at) {
    const std::size_t begin = at * values.size() / count, end = (at + 1) * values.size() / count;
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += values[i];
    means.push_back(sum / static_cast<double>(end - begin));
    if (!std::isfinite(means.back())) return "";
  }
  const auto [low, high] = std::minmax_element(means.begin(), means.end());
  const double range = *high - *low;
  if (!std::isfinite(range)) return "";
  std::string text;
  for (const double mean : means) {
    const double height = range > 0 ? (mean - *low) / range : 0;
    text += kHeights[static_cast<std::size_t>(std::lround(height * (kHeights.size() - 1)))];
  }
  return text;
}

}  // namespace dlrun
