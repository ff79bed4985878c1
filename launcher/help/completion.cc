#include "launcher/help/completion.h"

#include <fmt/core.h>

#include "common/text.h"
#include "launcher/help/completion_parts.h"
#include "launcher/spec/value_types.h"

namespace dlrun {
namespace completion {

Takes takes_of(const OptionHelp& option) {
  if (option.value.empty()) return Takes::kNothing;
  if (option.value == "DIR" || option.value == "FILE") return Takes::kPath;
  if (option.value == "KEY=VALUE") return Takes::kSet;
  if (option.value == "SITE") return Takes::kSite;
  return Takes::kValue;
}

std::vector<std::string> words_of(const CommandHelp& command) {
  if (command.takes("SHELL")) return {"bash", "zsh", "fish"};
  if (command.takes("ACTION")) return {"list", "show"};
  if (!command.takes("VERB")) return {};
  if (command.name == "bench") return {"collectives", "scaling"};
  if (command.name == "host") return {"check", "forget", "list", "login"};
  return {"import", "list"};
}

bool takes_file(const CommandHelp& command) {
  return command.takes("SPEC") || command.takes("IMAGE");
}

std::string plain(std::string_view text) {
  std::string result;
  for (const char c : text) result += (c == '\'' ? '`' : c);
  return result;
}

SetWords set_words() {
  SetWords words;
  std::vector<std::string> switches, paths;
  for (const KeyRow& row : spec_keys()) {
    if (!row.is_supported()) continue;
    const std::string key(row.path);
    const ValueTraits traits = traits_of(row);
    words.keys.push_back(key + (traits.has_entries ? "." : "="));
    if (row.format == Format::kChoice) words.values.emplace_back(key, std::string(row.choices));
    if (traits.is_switch || row.format == Format::kFlag) switches.push_back(key);
    const bool is_path = row.format == Format::kPath || row.format == Format::kMaybePath ||
                         row.format == Format::kImage || row.format == Format::kPattern;
    if (is_path) paths.push_back(key);
  }
  words.values.emplace_back(join(switches, "|"), "true false");
  words.paths = join(paths, "|");
  return words;
}

std::string note(std::string_view shell) {
  return fmt::format(
      "# Made by `dlrun completion {}` from the tree of commands and the key table; a test keeps "
      "it equal.\n",
      shell);
}

}  // namespace completion

Result<std::string> completion_script(const CommandTable& table, const std::string& shell) {
  if (shell == "bash") return completion::bash(table);
  if (shell == "zsh") return completion::zsh(table);
  if (shell == "fish") return completion::fish(table);
  return fail(Errc::kUsage, "no completion for '{}': bash, zsh and fish have one",
              printable(shell));
}

}  // namespace dlrun
