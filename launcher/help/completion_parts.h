#pragma once
// The parts that the completion scripts of all shells share. Only completion*.cc and man_page.cc
// include this file.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/help/command_table.h"

namespace dlrun::completion {

/// The kind of value that an option accepts, derived from the value's name in --help.
enum class ValueKind { kNothing, kValue, kPath, kKeyAndValue, kSite };
[[nodiscard]] ValueKind value_kind_of(const OptionHelp& option);

/// Returns the values that the first positional accepts; empty if it accepts any text.
[[nodiscard]] std::vector<std::string> first_argument_choices(const CommandHelp& command);
/// Returns true if one of the positionals can be the path of a file.
[[nodiscard]] bool has_file_positional(const CommandHelp& command);

/// Replaces each single quote by a backquote, so that the text can stand inside single quotes in
/// all three shells.
[[nodiscard]] std::string quotes_as_backquotes(std::string_view text);

/// The completions of --set.
struct SetOptionCompletions {
  /// Each key ends with '=', or with '.' if a name that the user chooses comes next.
  std::vector<std::string> keys;
  /// Keys ("a|b"), and the values that they accept ("x y").
  std::vector<std::pair<std::string, std::string>> values;
  std::string path_keys;  ///< keys whose value is a path ("a|b")
};
[[nodiscard]] SetOptionCompletions completions_of_set_option();

/// Returns the first comment of a completion script: the command that generated the script.
[[nodiscard]] std::string first_comment(std::string_view shell);

/// Each function returns the completion script for the shell of its name.
[[nodiscard]] std::string bash_script(const CommandTable& table);
[[nodiscard]] std::string zsh_script(const CommandTable& table);
[[nodiscard]] std::string fish_script(const CommandTable& table);

}  // namespace dlrun::completion
