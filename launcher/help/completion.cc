#include "launcher/help/completion.h"

#include <fmt/core.h>

#include "common/text.h"
#include "launcher/help/completion_parts.h"
#include "launcher/spec/value_functions.h"

namespace dlrun {
namespace completion {

ValueKind value_kind_of(const OptionHelp& option) {
  if (option.value_name.empty()) return ValueKind::kNothing;
  if (option.value_name == "DIR" || option.value_name == "FILE") return ValueKind::kPath;
  if (option.value_name == "KEY=VALUE") return ValueKind::kKeyAndValue;
  if (option.value_name == "SITE") return ValueKind::kSite;
  return ValueKind::kValue;
}

std::vector<std::string> first_argument_choices(const CommandHelp& command) {
  if (command.has_positional("SHELL")) return {"bash", "zsh", "fish"};
  if (command.has_positional("ACTION")) return {"list", "show"};
  if (!command.has_positional("VERB")) return {};
  if (command.name == "bench") return {"collectives", "scaling"};
  if (command.name == "track") return {"sync"};
  if (command.name == "host") return {"check", "forget", "list", "login"};
  return {"import", "list"};  // container
}

bool has_file_positional(const CommandHelp& command) {
  return command.has_positional("SPEC") || command.has_positional("IMAGE");
}

std::string quotes_as_backquotes(std::string_view text) {
  std::string result;
  for (const char c : text) result += (c == '\'' ? '`' : c);
  return result;
}

SetOptionCompletions completions_of_set_option() {
  SetOptionCompletions completions;
  std::vector<std::string> switches, path_keys;
  for (const KeyRow& row : spec_keys()) {
    if (!row.is_supported()) continue;
    const std::string key(row.path);
    const ValueTraits traits = traits_of(row);
    completions.keys.push_back(key + (traits.has_settable_entries ? "." : "="));
    if (row.format == Format::kChoice)
      completions.values.emplace_back(key, std::string(row.choices));
    if (traits.is_switch || row.format == Format::kTextOrSwitch) switches.push_back(key);
    const bool is_path = row.format == Format::kPath || row.format == Format::kMaybePath ||
                         row.format == Format::kImage || row.format == Format::kPathPattern;
    if (is_path) path_keys.push_back(key);
  }
  completions.values.emplace_back(join(switches, "|"), "true false");
  completions.path_keys = join(path_keys, "|");
  return completions;
}

std::string first_comment(std::string_view shell) {
  return fmt::format(
      "# Made by `dlrun completion {}` from the tree of commands and the key table; a test checks "
      "this.\n",
      shell);
}

}  // namespace completion

Result<std::string> completion_script(const CommandTable& table, const std::string& shell) {
  if (shell == "bash") return completion::bash_script(table);
  if (shell == "zsh") return completion::zsh_script(table);
  if (shell == "fish") return completion::fish_script(table);
  return fail(Errc::kUsage, "no completion for '{}': bash, zsh and fish have one",
              printable(shell));
}

}  // namespace dlrun
