#pragma once
// Reads a shell script as text, without running it: its commands, their words, and the parts of a
// word that the shell would replace. ShellWord::is_complex is true for a word that this reader does
// not understand, so that no caller takes the word for plain text.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dlrun {

/// A part of a word: text, or a variable that the shell replaces.
struct ShellPart {
  std::string text;  ///< the text without quotes, or the variable's name
  bool is_variable = false;
  bool is_quoted = false;
};

/// A word of a command.
struct ShellWord {
  std::vector<ShellPart> parts;
  std::string source;  ///< the word as it is written
  /// True if the word has something other than text and plain variables: $(...), ${X:-y}, *.
  bool is_complex = false;

  /// Returns true if the word is plain text, which may stand in quotes: the shell replaces nothing
  /// in it.
  [[nodiscard]] bool is_literal() const;
  /// Returns the text of a literal word; "" for any other word.
  [[nodiscard]] std::string literal() const;
};

/// A command of a script. A whole pipe is one ShellCommand, and so are several commands with &&, ||
/// or & between them.
struct ShellCommand {
  std::size_t line = 0;          ///< the number of the command's first line, from 1
  std::string source;            ///< the command as it is written, in one line
  std::vector<ShellWord> words;  ///< the words before the first operator
  /// The text from the first operator on, such as a redirection or a pipe; empty if there is none.
  std::string tail;
  /// True if the command has &&, ||, &, a parenthesis or a here-document (<<).
  bool has_complex_operator = false;
  /// True inside a condition, a loop, a function or a subshell, and after the reader has lost
  /// track.
  bool is_nested = false;
};

/// Returns the commands of a script in their order. If the reader loses track, for example because
/// a quote is not closed, the rest of the script is one nested command, whose `source` is only the
/// first line of the rest.
[[nodiscard]] std::vector<ShellCommand> read_shell(std::string_view script);

}  // namespace dlrun
