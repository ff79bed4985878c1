#pragma once
// Finds the command in the words of a command line, and explains words that dlrun does not know.
// Pure functions.

#include <optional>
#include <string>
#include <vector>

#include "launcher/help/command_table.h"

namespace dlrun {

/// Returns the first argument other than -v, --log-file and -H (and their values), which may
/// precede the command's name. The argument is the command's name, or an option such as --version
/// or an unknown one. Returns an empty text if there is no such argument. words: the command line
/// with the program's name.
[[nodiscard]] std::string command_word_in(const std::vector<std::string>& words);

/// Returns the message about a second spec for a command that takes only one: "`dlrun run` takes
/// one spec, so 'b.yaml' is not expected". argument: the word that the parser refused. Returns
/// nullopt if the argument does not end with .yaml or .yml, or if the command takes no spec or
/// several.
[[nodiscard]] std::optional<std::string> second_spec_text(const CommandTable& table,
                                                          const std::string& command,
                                                          const std::string& argument);

/// Returns the message for a command line that the parser refused: a message about the unknown
/// command or the first unknown option, or else `message`, the parser's own. is_command_known: the
/// parser knows the command. table: the commands that the parser knows.
[[nodiscard]] std::string refused_command_line_text(const CommandTable& table,
                                                    bool is_command_known,
                                                    const std::vector<std::string>& words,
                                                    const std::string& message);

}  // namespace dlrun
