// The completion script of zsh.

#include <fmt/format.h>

#include "common/text.h"
#include "launcher/help/completion_parts.h"

namespace dlrun::completion {
namespace {

std::string escaped_help(std::string_view help) {
  std::string result;
  for (const char c : quotes_as_backquotes(help)) {
    if (c == '[' || c == ']' || c == ':') result += '\\';
    result += c;
  }
  return result;
}

/// Returns the text that makes _arguments complete the value of an option: a message and an action.
std::string_view value_completion(ValueKind kind) {
  switch (kind) {
    case ValueKind::kNothing:
      return "";
    case ValueKind::kValue:
      return ":value:";
    case ValueKind::kPath:
      return ":path:_files";
    case ValueKind::kKeyAndValue:
      return ":key:_dlrun_set";
    case ValueKind::kSite:
      return ":site:_dlrun_sites";
  }
  return "";
}

/// Returns the functions that complete runs, sites, hosts, keys and the values of --set.
std::string zsh_helpers() {
  const SetOptionCompletions set = completions_of_set_option();
  std::string text =
      "_dlrun_runs() {\n  local state=${XDG_STATE_HOME:-$HOME/.local/state}/dlrun/runs\n  local -a "
      "runs\n"
      "  runs=(last $state/*(N:t))\n  compadd -a runs\n}\n\n";
  text +=
      "_dlrun_sites() {\n  compadd -- ${(f)\"$(dlrun completion --list sites "
      "2>/dev/null)\"}\n}\n\n";
  text +=
      "_dlrun_hosts() {\n  compadd -- ${(f)\"$(dlrun completion --list hosts "
      "2>/dev/null)\"}\n}\n\n";
  text += fmt::format("_dlrun_keys=({})\n\n", join(set.keys, " "));
  text += "_dlrun_explained() {\n  compadd -- ${_dlrun_keys%[.=]}\n  _files\n}\n\n";
  text +=
      "_dlrun_set() {\n  if [[ $PREFIX != *=* ]]; then\n    compadd -S '' -a _dlrun_keys\n    "
      "return\n  fi\n"
      "  local key=${PREFIX%%=*}\n  compset -P '*='\n  case $key in\n";
  for (const auto& [keys, words] : set.values)
    text += fmt::format("    {}) compadd -- {} ;;\n", keys, words);
  text += fmt::format(
      "    site) _dlrun_sites ;;\n    launch.preset) compadd -- ${{(f)\"$(dlrun completion --list "
      "presets 2>/dev/null)\"}} ;;\n"
      "    {}) _files ;;\n  esac\n}}\n\n",
      set.path_keys);
  return text;
}

/// Returns one command's options and positionals, as arguments of _arguments.
std::string arguments_of(const CommandHelp& command) {
  std::string text = fmt::format("        {})\n          _arguments", command.name);
  const auto words = first_argument_choices(command);
  for (const auto& option : command.options) {
    for (const auto& name : option.names)
      text += fmt::format(" \\\n            '*{}[{}]{}'", name, escaped_help(option.help),
                          value_completion(value_kind_of(option)));
  }
  if (command.has_positional("RUN")) text += " \\\n            '*:run:_dlrun_runs'";
  if (command.has_positional("KEY")) {
    text += " \\\n            '1:key or spec:_dlrun_explained'";
  } else if (has_file_positional(command)) {
    text += fmt::format(" \\\n            '{}:spec:_files'", words.empty() ? "1" : "2");
  }
  if (command.has_positional("SITE")) text += " \\\n            '*:site:_dlrun_sites'";
  if (command.has_positional("HOST")) text += " \\\n            '2:host:_dlrun_hosts'";
  if (!words.empty()) text += fmt::format(" \\\n            '1:word:({})'", join(words, " "));
  text += "\n          ;;\n";
  return text;
}

}  // namespace

std::string zsh_script(const CommandTable& table) {
  std::string text = "#compdef dlrun\n" + first_comment("zsh") + zsh_helpers();
  text +=
      "_dlrun() {\n  local context state line\n  typeset -A opt_args\n  _arguments -C '--help[Show "
      "help]' '--version[Show the version]' '*'{-v,--verbose}'[Log on stderr]' '--log-file[Append "
      "the log to this file]:file:_files' '*'{-H,--host}'[Run on this host]:host:_dlrun_hosts' '1: "
      ":->command' '*:: :->rest' && return\n";
  text += "  case $state in\n    command)\n      local -a commands\n      commands=(\n";
  for (const auto& command : table.commands)
    text += fmt::format("        '{}:{}'\n", command.name, escaped_help(command.help));
  text +=
      "      )\n      _describe command commands\n      ;;\n    rest)\n      case $words[1] in\n";
  for (const auto& command : table.commands) text += arguments_of(command);
  text +=
      "      esac\n      ;;\n  esac\n}\n\nif [[ $funcstack[1] == _dlrun ]]; then\n  _dlrun "
      "\"$@\"\nelse\n  compdef _dlrun dlrun\nfi\n";
  return text;
}

}  // namespace dlrun::completion
