// Styles are stored inside the text as two control characters, which no escaped value can contain.
// render() replaces them by the terminal's sequences.

#include "cli/terminal/printed_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace dlrun {
namespace {

// Marks at the beginning and at the end of a style. The character after kBegin selects the style:
// 'a' selects the first style of enum Style.
constexpr char kBegin = '\x01', kEnd = '\x02';

/// Returns the escape sequence that begins the style.
std::string_view code_of(Style style) {
  switch (style) {
    case Style::kNone:
      return "";
    case Style::kBold:
      return "\033[1m";
    case Style::kDim:
      return "\033[2m";
    case Style::kRed:
      return "\033[31m";
    case Style::kGreen:
      return "\033[32m";
    case Style::kYellow:
      return "\033[33m";
    case Style::kBlue:
      return "\033[34m";
    case Style::kCyan:
      return "\033[36m";
  }
  return "";
}

/// Returns the bytes of the first character. text: UTF-8, not empty.
std::string_view first_character(std::string_view text) {
  const auto end = std::find_if(text.begin() + 1, text.end(), is_character_start);
  return text.substr(0, static_cast<std::size_t>(end - text.begin()));
}

/// Returns the character's code point. character: UTF-8, at most 4 bytes.
std::uint32_t code_point(std::string_view character) {
  constexpr std::array<std::uint32_t, 5> kBitsOfFirst{0, 0x7f, 0x1f, 0x0f, 0x07};
  std::uint32_t code = static_cast<unsigned char>(character[0]) & kBitsOfFirst.at(character.size());
  for (const char c : character.substr(1))
    code = code << 6U | (static_cast<unsigned char>(c) & 0x3fU);
  return code;
}

}  // namespace

namespace text_detail {

std::string marked(const Styled& value) {
  if (value.style == Style::kNone || value.text.empty()) return printable(value.text);
  std::string text{kBegin, static_cast<char>('a' + static_cast<int>(value.style))};
  return text + printable(value.text) + kEnd;
}

std::string marked(const Text& value) {
  return value.marked_;
}

}  // namespace text_detail

Text& Text::add(const Styled& value) {
  marked_ += text_detail::marked(value);
  return *this;
}

Text& Text::add(const Text& other) {
  marked_ += other.marked_;
  return *this;
}

Text Text::of_lines(std::string_view lines, Style style) {
  Text text;
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find_first_of("\n\t"), lines.size());
    text.add(styled(style, lines.substr(0, end)));
    if (end < lines.size()) text.marked_ += lines[end];
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  return text;
}

std::string Text::render(bool colour) const {
  std::string shown;
  shown.reserve(marked_.size());
  for (std::size_t at = 0; at < marked_.size(); ++at) {
    if (marked_[at] == kBegin) {
      ++at;
      if (colour) shown += code_of(static_cast<Style>(marked_[at] - 'a'));
    } else if (marked_[at] == kEnd) {
      if (colour) shown += "\033[0m";
    } else {
      shown += marked_[at];
    }
  }
  return shown;
}

std::size_t Text::columns() const {
  const std::string shown = plain();
  std::size_t most = 0;
  for (std::size_t at = 0; at < shown.size();) {
    const std::size_t end = std::min(shown.find('\n', at), shown.size());
    most = std::max(most, columns_of(std::string_view(shown).substr(at, end - at)));
    at = end + 1;
  }
  return most;
}

std::string printable_json(std::string_view json) {
  std::string safe;
  safe.reserve(json.size());
  while (!json.empty()) {
    const std::string_view character = first_character(json);
    json.remove_prefix(character.size());
    const bool is_plain = character.size() == 1 && character != "\x7f";
    if (is_plain || character.size() > 4 || printable(character) == character) {
      safe += character;
    } else if (const std::uint32_t code = code_point(character); code <= 0xffff) {
      safe += fmt::format("\\u{:04x}", code);
    } else {
      safe += fmt::format("\\u{:04x}\\u{:04x}", 0xd800U + ((code - 0x10000U) >> 10U),
                          0xdc00U + (code & 0x3ffU));
    }
  }
  return safe;
}

Text table(const TableRows& rows) {
  TableRows cells;
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    auto& shown = cells.emplace_back();
    widths.resize(std::max(widths.size(), row.size()));
    for (const std::string& cell : row) {
      shown.push_back(printable(cell));
      std::size_t& width = widths[shown.size() - 1];
      width = std::max(width, columns_of(shown.back()));
    }
  }
  Text text;
  for (std::size_t r = 0; r < cells.size(); ++r) {
    std::string line;
    for (std::size_t i = 0; i < cells[r].size(); ++i) {
      line += cells[r][i];
      if (i + 1 < cells[r].size()) line.append(widths[i] - columns_of(cells[r][i]) + 2, ' ');
    }
    while (line.ends_with(' ')) line.pop_back();
    text.add("{}\n", styled(r == 0 ? Style::kBold : Style::kNone, line));
  }
  return text;
}

Text labelled(const LabelledLines& lines, std::size_t label_width) {
  Text all;
  for (const LabelledLine& line : lines) {
    all.add("  {:<{}}{}\n", line.label, label_width,
            styled(line.is_bad ? Style::kRed : Style::kNone, line.value));
  }
  return all;
}

Text bar_chart(const BarChart& chart) {
  constexpr double kWidth = 48;
  std::string text = chart.title + "\n";
  for (const ChartBar& one : chart.bars) {
    text += "  " + one.label + " ";
    const long blocks = std::max(std::lround(one.length * kWidth), 1L);
    for (long i = 0; i < blocks; ++i) text += one.is_modelled ? "░" : "█";
    text += " " + one.value + "\n";
  }
  return Text::of_lines(text);
}

}  // namespace dlrun
