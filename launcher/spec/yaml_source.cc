#include "launcher/spec/yaml_source.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "common/text.h"

namespace dlrun {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kNextLineCharacter = "\xC2\x85";  ///< U+0085, a line break in YAML 1.1
/// Stands for a '?' inside words while yaml-cpp reads the text, because yaml-cpp would take that
/// '?' for an indicator. No UTF-8 text has this byte, and no escape produces it.
constexpr char kQuestionSubstitute = '\xF9';
/// The size of a block of text; continuation_counts_ has one count for each block.
constexpr std::size_t kIndexBlockBytes = 256;

[[nodiscard]] bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

[[nodiscard]] bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

/// Returns true for a character that YAML allows in a file (YAML 1.1, c-printable).
[[nodiscard]] bool is_allowed(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) {
    return !is_control(character[0]) || character[0] == '\t' || character[0] == '\n' ||
           character[0] == '\r';
  }
  if (character.size() == 2)
    return byte(0) != 0xC2 || byte(1) >= 0xA0 || character == kNextLineCharacter;
  return character != "\xEF\xBF\xBE" && character != "\xEF\xBF\xBF";
}

/// Returns the line and column of the end of text.
[[nodiscard]] YamlPlace place_of_end(std::string_view text) {
  const auto last_break = text.rfind('\n');
  const auto line = text.substr(last_break == std::string_view::npos ? 0 : last_break + 1);
  return {static_cast<int>(std::count(text.begin(), text.end(), '\n')) + 1,
          static_cast<int>(std::count_if(line.begin(), line.end(),
                                         [](char c) { return !continues_character(c); })) +
              1};
}

/// Returns the bytes in hexadecimal: "c2 85".
[[nodiscard]] std::string hex_of(std::string_view text) {
  std::string bytes;
  for (const char c : text)
    bytes += fmt::format("{}{:02x}", bytes.empty() ? "" : " ", static_cast<unsigned char>(c));
  return bytes;
}

/// Returns true if a '?' after this text is a part of words, as in "a?" and "a ? b". Otherwise the
/// '?' can start a key.
[[nodiscard]] bool is_among_words(std::string_view before) {
  constexpr std::string_view kSigns = "\n[{,:-?\"'";
  const auto last = before.find_last_not_of(" \t");
  if (last == std::string_view::npos) return false;
  return kSigns.find(before[last]) == std::string_view::npos;
}

}  // namespace

tl::expected<YamlSource, YamlProblem> YamlSource::prepare(std::string_view text) {
  // Some editors write a byte order mark.
  while (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  YamlSource source;
  std::string& prepared = source.text_;
  prepared.reserve(text.size());
  bool is_ascii = true;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c >= ' ' && c < '\x7f' && c != '?') {  // most characters
      prepared += c;
      ++i;
      continue;
    }
    const std::size_t length = utf8_character_length(text.substr(i));
    if (length == 0) {
      return tl::unexpected(yaml_problem(
          place_of_end(prepared),
          fmt::format("byte 0x{} is not UTF-8 text; save the file as UTF-8", hex_of({&c, 1}))));
    }
    const std::string_view character = text.substr(i, length);
    if (!is_allowed(character)) {
      return tl::unexpected(yaml_problem(
          place_of_end(prepared),
          fmt::format("YAML does not allow this character (bytes in hexadecimal: {}); write an "
                      "escape such as \\x07 or \\uFFFE in double quotes",
                      hex_of(character))));
    }
    i += length;
    if (c == '\r' && text.substr(i).starts_with('\n')) continue;
    if (c == '\r' || character == kNextLineCharacter) {
      prepared += '\n';
    } else if (c == '?' && is_among_words(prepared)) {
      prepared += kQuestionSubstitute;
      source.has_question_substitutes_ = true;
    } else {
      prepared += character;
      is_ascii = is_ascii && length == 1;
    }
  }
  source.drop_last_indentation();
  if (!is_ascii) {
    std::size_t seen = 0;
    for (std::size_t i = 0; i < prepared.size(); ++i) {
      if (i % kIndexBlockBytes == 0) source.continuation_counts_.push_back(seen);
      if (continues_character(prepared[i])) ++seen;
    }
  }
  return source;
}

void YamlSource::drop_last_indentation() {
  const auto last_break = text_.rfind('\n');
  if (last_break == std::string::npos || last_break == 0) return;
  const std::size_t last_line_length = text_.size() - last_break - 1;
  const auto before = text_.rfind('\n', last_break - 1);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  const bool is_only_spaces = text_.find_first_not_of(' ', last_break + 1) == std::string::npos;
  const auto first = text_.find_first_not_of(' ', begin);
  if (is_only_spaces && first == begin + last_line_length && first != last_break)
    text_.resize(last_break + 1);
}

std::string YamlSource::restored(std::string value) const {
  if (has_question_substitutes_) std::replace(value.begin(), value.end(), kQuestionSubstitute, '?');
  // yaml-cpp 0.7 turns the escapes \N and \_ into the single bytes 85 and A0, which are not UTF-8.
  const bool may_hold_bytes = value.find_first_of("\x85\xA0") != std::string::npos;
  if (!may_hold_bytes || is_utf8(value)) return value;
  std::string result;
  for (std::size_t i = 0; i < value.size();) {
    const std::size_t length = utf8_character_length(std::string_view(value).substr(i));
    if (length == 0) result += '\xC2';
    result.append(value, i, std::max<std::size_t>(length, 1));
    i += std::max<std::size_t>(length, 1);
  }
  return result;
}

YamlSource::Position YamlSource::position_of_mark(int offset, int line, int column) const {
  Position at;
  at.offset = std::min(static_cast<std::size_t>(std::max(offset, 0)), text_.size());
  at.line = std::max(line, 0);
  at.line_start = at.offset - std::min(at.offset, static_cast<std::size_t>(std::max(column, 0)));
  // At the end of the text, yaml-cpp reports column 0.
  if (at.offset == text_.size()) {
    const auto last_break = text_.rfind('\n');
    at.line_start = last_break == std::string::npos ? 0 : last_break + 1;
  }
  return at;
}

YamlPlace YamlSource::place(const Position& at) const {
  const auto continuation_bytes_before = [&](std::size_t offset) {
    const std::size_t block = std::min(offset / kIndexBlockBytes, continuation_counts_.size() - 1);
    return continuation_counts_[block] +
           static_cast<std::size_t>(std::count_if(
               text_.begin() + static_cast<std::ptrdiff_t>(block * kIndexBlockBytes),
               text_.begin() + static_cast<std::ptrdiff_t>(offset), continues_character));
  };
  std::size_t column = at.column();
  if (!continuation_counts_.empty())
    column -= continuation_bytes_before(at.offset) - continuation_bytes_before(at.line_start);
  return {at.line + 1, static_cast<int>(column) + 1};
}

std::string_view YamlSource::rest(const Position& at) const {
  return std::string_view(text_).substr(at.offset);
}

bool YamlSource::is_document_start(const Position& at) const {
  const std::string_view following = rest(at);
  return at.column() == 0 && following.starts_with("---") &&
         (following.size() == 3 || is_blank(following[3]) || following[3] == '\n');
}

const YamlSource::Margin& YamlSource::margin(const Position& at) {
  if (margin_.line_start == at.line_start) return margin_;
  std::size_t end = at.line_start;
  const auto is_indicator = [&] {
    return (text_[end] == '-' || text_[end] == '?') && end + 1 < text_.size() &&
           is_blank(text_[end + 1]);
  };
  while (end < text_.size() && (is_blank(text_[end]) || is_indicator())) ++end;
  margin_ = {at.line_start, end, std::string_view(text_).substr(0, end).find('\t', at.line_start)};
  return margin_;
}

std::optional<YamlSource::Position> YamlSource::tab_before(const Position& at) {
  const Margin& found = margin(at);
  if (found.tab >= at.offset) return std::nullopt;
  return Position{found.tab, at.line_start, at.line};
}

bool YamlSource::is_first_on_line(const Position& at) {
  return margin(at).end >= at.offset;
}

YamlSource::Position YamlSource::first_word(const Position& at) {
  return {margin(at).end, at.line_start, at.line};
}

std::optional<YamlSource::Position> YamlSource::first_word_before(Position at) {
  while (at.line_start > 0) {
    const std::size_t end = at.line_start - 1;  // the line break
    const auto previous_break = end == 0 ? std::string::npos : text_.rfind('\n', end - 1);
    at.line_start = previous_break == std::string::npos ? 0 : previous_break + 1;
    --at.line;
    const Position word = first_word(at);
    if (text_[word.offset] != '\n' && text_[word.offset] != '#') return word;
  }
  return std::nullopt;
}

std::string_view YamlSource::rest_of_line(const Position& at) const {
  const std::string_view following = rest(at);
  return following.substr(0, following.find('\n'));
}

YamlSource::Position YamlSource::position_of(std::size_t offset, const Position& before) const {
  Position at{offset, before.line_start, before.line};
  const std::string_view between =
      std::string_view(text_).substr(before.offset, offset - before.offset);
  if (const auto last_break = between.rfind('\n'); last_break != std::string_view::npos) {
    at.line += static_cast<int>(std::count(between.begin(), between.end(), '\n'));
    at.line_start = before.offset + last_break + 1;
  }
  return at;
}

YamlSource::Position YamlSource::past_properties(Position at) const {
  std::size_t offset = at.offset;
  while (offset < text_.size() && (text_[offset] == '&' || text_[offset] == '!'))
    offset = past_space(end_of_property(offset));
  return position_of(offset, at);
}

std::size_t YamlSource::end_of_property(std::size_t offset) const {
  return std::min(text_.find_first_of(" \t\n,[]{}", offset), text_.size());
}

std::size_t YamlSource::past_space(std::size_t offset) const {
  for (;;) {
    offset = std::min(text_.find_first_not_of(" \t\n", offset), text_.size());
    if (offset == text_.size() || text_[offset] != '#') return offset;
    offset = std::min(text_.find('\n', offset), text_.size());
  }
}

std::string_view YamlSource::tag(const Position& at) const {
  std::size_t offset = at.offset;
  if (offset < text_.size() && text_[offset] == '&') {
    offset = std::min(text_.find_first_not_of(" \t", end_of_property(offset)), text_.size());
  }
  if (offset == text_.size() || text_[offset] != '!') return {};
  return std::string_view(text_).substr(offset, end_of_property(offset) - offset);
}

std::optional<YamlSource::Quoted> YamlSource::quoted(const Position& at) const {
  std::size_t end = past_properties(at).offset;
  if (end == text_.size() || (text_[end] != '"' && text_[end] != '\'')) return std::nullopt;
  const char quote = text_[end++];
  Quoted result;
  const std::size_t begin = end;
  std::size_t escape_end = begin;
  for (; end < text_.size(); ++end) {
    if (quote == '"' && text_[end] == '\\' && ++end < text_.size()) {
      if (text_[end] == '\'') result.has_bad_escape = true;
      const char kind = text_[end];
      escape_end = end + 1 + (kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0);
    } else if (text_[end] == quote) {
      if (quote == '"' || text_.compare(end, 2, "''") != 0) break;
      ++end;
    }
  }
  result.end = end;
  result.has_end = end < text_.size();
  const std::string_view content = std::string_view(text_).substr(begin, end - begin);
  const std::size_t words_end = content.find_last_not_of(" \t\n") + 1;  // 0 for white space alone
  result.ends_with_escape = begin + words_end <= escape_end && escape_end > begin;
  result.breaks_before_end = static_cast<std::size_t>(
      std::count(content.begin() + static_cast<std::ptrdiff_t>(words_end), content.end(), '\n'));
  return result;
}

std::optional<YamlSource::Position> YamlSource::past_key(Position at) const {
  at = past_properties(at);
  std::size_t end = at.offset;
  const auto is_in_line = [&] { return end < text_.size() && text_[end] != '\n'; };
  if (!is_in_line()) return std::nullopt;
  if (std::string_view("[{?|>").find(text_[end]) != std::string_view::npos) return std::nullopt;
  if (const auto in_quotes = quoted(at)) {
    end = std::min(in_quotes->end + 1, text_.size());
    while (is_in_line() && is_blank(text_[end])) ++end;
    if (!is_in_line() || text_[end] != ':') return std::nullopt;
  } else {
    const auto is_colon = [&] {
      const bool is_last = end + 1 >= text_.size();
      return text_[end] == ':' && (is_last || is_blank(text_[end + 1]) || text_[end + 1] == '\n');
    };
    while (is_in_line() && !is_colon()) ++end;
    if (!is_in_line()) return std::nullopt;
  }
  return Position{end + 1, at.line_start, at.line};
}

std::optional<YamlSource::Position> YamlSource::past_dash_before(const Position& at,
                                                                 std::size_t column) const {
  Position line = at;
  for (std::size_t end = at.offset;; end = line.line_start - 1) {
    if (end < line.line_start) {  // continue on the line before
      const auto previous_break = end == 0 ? std::string::npos : text_.rfind('\n', end - 1);
      line.line_start = previous_break == std::string::npos ? 0 : previous_break + 1;
      --line.line;
    }
    const std::string_view content(text_.data() + line.line_start, end - line.line_start);
    const auto first = content.find_first_not_of(" \t");
    if (first != std::string_view::npos && content[first] != '#') {
      if (column >= content.size() || content[column] != '-') return std::nullopt;
      line.offset = line.line_start + column + 1;
      return line;
    }
    if (line.line_start == 0) return std::nullopt;
  }
}

tl::expected<void, YamlProblem> YamlSource::check_directives(const Position& document) const {
  bool has_directive = false;
  Position line;
  for (; line.offset < document.offset; ++line.line) {
    line.line_start = line.offset;
    const auto end = std::min(text_.find('\n', line.offset), text_.size());
    std::string_view content(text_.data() + line.offset, end - line.offset);
    if (content.starts_with('%')) {
      has_directive = true;
      content = trim(content.substr(0, content.find(" #")));
      const auto blank = content.find_first_of(" \t");
      const std::string_view name = content.substr(0, blank);
      const std::string_view value =
          blank == std::string_view::npos ? std::string_view() : trim(content.substr(blank));
      if (name != "%TAG" && !(name == "%YAML" && (value == "1.1" || value == "1.2"))) {
        return tl::unexpected(yaml_problem(
            place(line),
            "unknown directive; a line that starts with '%' can be '%YAML 1.2' or '%TAG'"));
      }
    }
    line.offset = end + 1;
  }
  if (has_directive && !is_document_start(document)) {
    return tl::unexpected(yaml_problem(
        place(document),
        "expected '---' between the directives, which start with '%', and the document"));
  }
  return {};
}

std::optional<YamlSource::Position> YamlSource::last_directive() const {
  const auto before = text_.rfind("\n%");
  if (before == std::string::npos) return std::nullopt;
  return position_of(before + 1, {});
}

}  // namespace dlrun
