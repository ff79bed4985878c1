#include "launcher/import/shell_text.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "common/text.h"
#include "launcher/spec/spec_builder.h"

namespace dlrun {
namespace {

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_name_character(char c) {
  return is_name_start(c) || (c >= '0' && c <= '9');
}

template <std::size_t N>
bool is_among(const std::array<std::string_view, N>& all, std::string_view one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

/// Reads one word after the other from a script.
class WordReader {
 public:
  explicit WordReader(std::string_view text) : text_(text) {}

  [[nodiscard]] bool is_at_end() const { return at_ >= text_.size(); }
  [[nodiscard]] std::size_t position() const { return at_; }
  /// Returns the next character; NUL at the end.
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  void skip(std::size_t characters) { at_ = std::min(at_ + characters, text_.size()); }
  void skip_to(std::size_t position) { at_ = std::min(position, text_.size()); }
  /// Skips blanks, and each backslash that continues a line, with the newline after it.
  void skip_blanks() {
    while (peek() == ' ' || peek() == '\t' || (peek() == '\\' && peek(1) == '\n'))
      skip(peek() == '\\' ? 2 : 1);
  }
  void skip_line() { skip_to(text_.find('\n', at_)); }

  /// Reads the word that begins at the position. Returns nullopt if a quote or a bracket is not
  /// closed.
  [[nodiscard]] std::optional<ShellWord> read_word() {
    word_ = {};
    const std::size_t start = at_;
    while (!is_at_end() &&
           std::string_view(" \t\n;&|<>()").find(peek()) == std::string_view::npos) {
      if (!read_piece(at_ == start)) return std::nullopt;
    }
    word_.source = std::string(text_.substr(start, at_ - start));
    if (word_.parts.empty()) word_.parts.push_back({"", false, true});
    return std::move(word_);
  }

 private:
  void add(std::string_view text, bool is_quoted) {
    if (!word_.parts.empty() && !word_.parts.back().is_variable &&
        word_.parts.back().is_quoted == is_quoted) {
      word_.parts.back().text += text;
    } else {
      word_.parts.push_back({std::string(text), false, is_quoted});
    }
  }

  /// Reads the next piece of the word: a character, a text in quotes, or a substitution. Returns
  /// false if a quote or a bracket is not closed.
  bool read_piece(bool is_first) {
    const char c = peek();
    if (c == '\'') return read_single_quoted();
    if (c == '"') return read_double_quoted();
    if (c == '$') return read_dollar(false);
    if (c == '`') return read_backticks();
    if (c == '\\') {
      if (peek(1) != '\n' && peek(1) != '\0') add(text_.substr(at_ + 1, 1), true);
      skip(2);
      return true;
    }
    if (c == '~' && (is_first || is_at_assigned_value()) &&
        (peek(1) == '/' || is_word_end(peek(1)))) {
      word_.parts.push_back({"HOME", true, true});  // the shell does not split this value at blanks
      skip(1);
      return true;
    }
    if (std::string_view("*?[{~").find(c) != std::string_view::npos && !is_bracket_alone(is_first))
      word_.is_complex = true;
    add(text_.substr(at_, 1), false);
    skip(1);
    return true;
  }

  [[nodiscard]] static bool is_word_end(char c) {
    return std::string_view(" \t\n;&|<>()").find(c) != std::string_view::npos || c == '\0';
  }
  /// Returns true at the words `{`, `[` and `[[`, which are commands.
  [[nodiscard]] bool is_bracket_alone(bool is_first) const {
    if (peek() == '{') return is_first && is_word_end(peek(1));
    return peek() == '[' && (is_word_end(peek(1)) || (is_first && peek(1) == '['));
  }

  /// Returns true directly after NAME=, where the shell replaces ~ as at the start of a word.
  [[nodiscard]] bool is_at_assigned_value() const {
    if (word_.parts.size() != 1 || word_.parts[0].is_quoted || word_.parts[0].is_variable)
      return false;
    const std::string_view text = word_.parts[0].text;
    return text.ends_with('=') && is_variable_name(text.substr(0, text.size() - 1));
  }

  bool read_single_quoted() {
    const auto end = text_.find('\'', at_ + 1);
    if (end == std::string_view::npos) return false;
    add(text_.substr(at_ + 1, end - at_ - 1), true);
    skip_to(end + 1);
    return true;
  }

  bool read_double_quoted() {
    skip(1);
    while (!is_at_end() && peek() != '"') {
      const char c = peek();
      if (c == '$') {
        if (!read_dollar(true)) return false;
      } else if (c == '`') {
        if (!read_backticks()) return false;
      } else if (c == '\\' &&
                 std::string_view("$`\"\\\n").find(peek(1)) != std::string_view::npos) {
        if (peek(1) != '\n') add(text_.substr(at_ + 1, 1), true);
        skip(2);
      } else {
        add(text_.substr(at_, 1), true);
        skip(1);
      }
    }
    if (is_at_end()) return false;
    skip(1);
    return true;
  }

  bool read_dollar(bool is_quoted) {
    if (peek(1) == '(' || peek(1) == '{') return read_bracketed(is_quoted);
    if (!is_name_start(peek(1))) {
      // "$" before a quote, a digit or a sign starts a form that this reader does not follow.
      if (!is_word_end(peek(1))) word_.is_complex = true;
      add("$", is_quoted);
      skip(1);
      return true;
    }
    std::size_t length = 1;
    while (is_name_character(peek(1 + length))) ++length;
    word_.parts.push_back({std::string(text_.substr(at_ + 1, length)), true, is_quoted});
    skip(1 + length);
    return true;
  }

  bool read_bracketed(bool is_quoted) {
    const char open = peek(1), close = open == '(' ? ')' : '}';
    const std::size_t start = at_ + 2;
    std::size_t depth = 0;
    for (std::size_t i = at_ + 1; i < text_.size(); ++i) {
      if (text_[i] == '\\') {
        ++i;
      } else if (text_[i] == '\'' && !is_quoted) {
        i = text_.find('\'', i + 1);
        if (i == std::string_view::npos) return false;
      } else if (text_[i] == open) {
        ++depth;
      } else if (text_[i] == close && --depth == 0) {
        const auto inside = text_.substr(start, i - start);
        if (open == '{' && is_variable_name(inside)) {
          word_.parts.push_back({std::string(inside), true, is_quoted});
        } else if (open == '(' && trim(inside) == "pwd") {
          word_.parts.push_back({"PWD", true, is_quoted});
        } else {
          word_.is_complex = true;
        }
        skip_to(i + 1);
        return true;
      }
    }
    return false;
  }

  bool read_backticks() {
    const auto end = text_.find('`', at_ + 1);
    if (end == std::string_view::npos) return false;
    word_.is_complex = true;
    skip_to(end + 1);
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  ShellWord word_;
};

/// Splits a script into commands, and follows the blocks that contain them.
class CommandReader {
 public:
  explicit CommandReader(std::string_view script) : script_(script), reader_(script) {}

  [[nodiscard]] std::vector<ShellCommand> read() && {
    begin_command();
    while (!reader_.is_at_end()) {
      reader_.skip_blanks();
      if (!read_next()) {
        lose_track();
        break;
      }
    }
    end_command();
    return std::move(commands_);
  }

 private:
  void begin_command() {
    command_ = {};
    start_ = std::string_view::npos;
  }

  /// Reads one word, operator or comment. Returns false if the text cannot be followed.
  bool read_next() {
    const char c = reader_.peek();
    if (reader_.is_at_end()) return true;
    if (c == '\n' || c == ';') {
      end_command();
      reader_.skip(1);
      if (c == '\n') skip_here_documents();
      return true;
    }
    if (c == '#') {
      reader_.skip_line();
      return true;
    }
    if (start_ == std::string_view::npos) start_ = reader_.position();
    if (std::string_view("&|<>()").find(c) != std::string_view::npos) return read_operator(c);
    auto word = reader_.read_word();
    if (!word) return false;
    if (command_.tail.empty()) command_.words.push_back(std::move(*word));
    return true;
  }

  /// Reads an operator. A redirection or a pipe begins the tail of the command.
  bool read_operator(char c) {
    if (c == '(' || c == ')') {
      read_parenthesis(c);
      reader_.skip(1);
      return true;
    }
    const bool is_doubled = reader_.peek(1) == c;
    if ((c == '&' || c == '|') && is_doubled) command_.has_complex_operator = true;
    if (c == '&' && !is_doubled && reader_.peek(1) != '>' && !is_after_redirection())
      command_.has_complex_operator = true;
    if (c == '<' && is_doubled && reader_.peek(2) != '<') return read_here_document();
    if (command_.tail.empty()) {
      tail_start_ = reader_.position() - drop_descriptor();
      command_.tail = c;
    }
    reader_.skip(is_doubled ? 2 : 1);
    return true;
  }

  /// Returns true for the '&' of "2>&1".
  [[nodiscard]] bool is_after_redirection() const {
    const std::size_t at = reader_.position();
    return at > 0 && (script_[at - 1] == '>' || script_[at - 1] == '<');
  }

  /// Removes the last word if it is a descriptor, such as the 2 in "2>file", and returns how many
  /// digits it has. Returns 0 if it is no descriptor. The shell takes a number as a descriptor only
  /// if the number stands directly before the operator.
  std::size_t drop_descriptor() {
    if (command_.words.empty()) return 0;
    const std::string& last = command_.words.back().source;
    const std::size_t at = reader_.position();
    const bool is_number =
        !last.empty() && last.find_first_not_of("0123456789") == std::string::npos;
    const bool is_descriptor = is_number && at >= last.size() &&
                               script_.substr(at - last.size(), last.size()) == last &&
                               reader_.peek() != '|' && reader_.peek() != '&';
    if (!is_descriptor) return 0;
    const std::size_t digits = last.size();
    command_.words.pop_back();
    return digits;
  }

  void read_parenthesis(char c) {
    command_.has_complex_operator = true;
    const bool has_words = !command_.words.empty();
    if (c == '(' && reader_.peek(1) == ')' && command_.words.size() == 1) {
      has_function_head_ = true;
      reader_.skip(1);  // the other parenthesis follows
    } else if (c == '(') {
      const bool is_block = !has_words || has_function_head_;
      if (is_block) ++depth_;
      command_.is_nested = command_.is_nested || is_block;
      open_parentheses_.push_back(is_block);
    } else if (has_words && (case_depth_ > 0 || command_.words.front().source == "case")) {
      return;  // the end of a pattern of `case`
    } else {
      const bool is_block = open_parentheses_.empty() || open_parentheses_.back();
      if (!open_parentheses_.empty()) open_parentheses_.pop_back();
      command_.is_nested = command_.is_nested || is_block;
      if (is_block) leave_block();
    }
  }

  bool read_here_document() {
    command_.has_complex_operator = true;
    reader_.skip(2);
    const bool is_indented = reader_.peek() == '-';
    if (is_indented) reader_.skip(1);
    reader_.skip_blanks();
    auto delimiter = reader_.read_word();
    if (!delimiter) return false;
    std::string text;
    for (const ShellPart& part : delimiter->parts) text += part.text;
    here_documents_.emplace_back(std::move(text), is_indented);
    return true;
  }

  void skip_here_documents() {
    for (const auto& [delimiter, is_indented] : std::exchange(here_documents_, {})) {
      while (!reader_.is_at_end()) {
        const std::size_t start = reader_.position();
        reader_.skip_line();
        std::string_view line = script_.substr(start, reader_.position() - start);
        reader_.skip(1);
        if (is_indented) line.remove_prefix(std::min(line.find_first_not_of('\t'), line.size()));
        if (line == delimiter) break;
      }
    }
  }

  void leave_block() {
    if (depth_ == 0) {
      is_lost_ = true;  // the end of a block whose start this reader has not recognised
    } else {
      --depth_;
    }
  }

  /// Ends the present command, and adds it to commands_ if it has a word or an operator.
  void end_command() {
    if (start_ != std::string_view::npos) {
      const auto before = script_.substr(line_position_, start_ - line_position_);
      line_ += static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
      line_position_ = start_;
      command_.line = line_;
      command_.source = one_line(script_.substr(start_, reader_.position() - start_));
      if (!command_.tail.empty())
        command_.tail = one_line(script_.substr(tail_start_, reader_.position() - tail_start_));
      follow_blocks();
      commands_.push_back(std::move(command_));
    }
    begin_command();
  }

  /// Updates depth_ and case_depth_ from the words at the start of the command.
  void follow_blocks() {
    constexpr std::array<std::string_view, 6> kOpen{"if",  "while", "until",
                                                    "for", "case",  "select"};
    constexpr std::array<std::string_view, 3> kClose{"fi", "done", "esac"};
    constexpr std::array<std::string_view, 5> kBeforeCommand{"then", "do", "else", "elif", "!"};
    const bool was_nested = depth_ > 0;
    std::size_t at = 0;
    bool has_keyword = false;
    while (at < command_.words.size()) {
      const std::string& word = command_.words[at].source;
      const bool begins_block = is_among(kOpen, word) || word == "{" || word == "function";
      if (begins_block && word != "function") ++depth_;
      if (is_among(kClose, word) || word == "}") leave_block();
      if (word == "case") ++case_depth_;
      if (word == "esac" && case_depth_ > 0) --case_depth_;
      has_keyword = has_keyword || begins_block || is_among(kClose, word) || word == "}" ||
                    is_among(kBeforeCommand, word);
      if (word == "for" || word == "case" || word == "select") break;
      if (!begins_block && !is_among(kBeforeCommand, word) && !(at == 0 && has_function_head_))
        break;
      at += word == "function" ? 2 : 1;
    }
    has_function_head_ = false;
    command_.is_nested = command_.is_nested || was_nested || depth_ > 0 || has_keyword || is_lost_;
  }

  [[nodiscard]] static std::string one_line(std::string_view text) {
    std::string line;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] == '\n') {
        ++i;
        while (i + 1 < text.size() && (text[i + 1] == ' ' || text[i + 1] == '\t')) ++i;
      } else {
        line += text[i] == '\n' ? ' ' : text[i];
      }
    }
    return std::string(trim(line));
  }

  /// Makes the rest of the script a nested command.
  void lose_track() {
    is_lost_ = true;
    if (start_ == std::string_view::npos) start_ = reader_.position();
    reader_.skip_to(script_.find('\n', start_));
    end_command();
    reader_.skip_to(script_.size());
  }

  std::string_view script_;
  WordReader reader_;
  std::vector<ShellCommand> commands_;
  ShellCommand command_;
  std::size_t start_ = std::string_view::npos;  ///< of the present command; npos: none has begun
  std::size_t tail_start_ = 0;
  std::size_t line_ = 1, line_position_ = 0;  ///< line_: the number of the line at line_position_
  std::size_t depth_ = 0;                     ///< of blocks
  std::size_t case_depth_ = 0;          ///< of blocks of `case`, in which a pattern ends with ')'
  std::vector<bool> open_parentheses_;  ///< for each open one: true if it begins a subshell
  bool has_function_head_ = false;      ///< the present command begins with NAME()
  bool is_lost_ = false;                ///< the reader has lost track of the blocks
  /// The delimiters of here-documents, and true for those whose lines may begin with tabs (<<-).
  std::vector<std::pair<std::string, bool>> here_documents_;
};

}  // namespace

bool ShellWord::is_literal() const {
  return !is_complex && std::none_of(parts.begin(), parts.end(),
                                     [](const ShellPart& part) { return part.is_variable; });
}

std::string ShellWord::literal() const {
  std::string text;
  if (!is_literal()) return text;
  for (const ShellPart& part : parts) text += part.text;
  return text;
}

std::vector<ShellCommand> read_shell(std::string_view script) {
  return CommandReader(script).read();
}

}  // namespace dlrun
