// The completion script of fish.

#include <algorithm>

#include <fmt/format.h>

#include "common/text.h"
#include "launcher/help/completion_parts.h"

namespace dlrun::completion {
namespace {

/// Returns the functions that complete runs, keys and the values of --set, and a line that switches
/// off the completion of file names.
std::string helpers() {
  const SetOptionCompletions set = completions_of_set_option();
  std::string text =
      "function __dlrun_runs\n    set -l state $HOME/.local/state\n    set -q XDG_STATE_HOME; and "
      "set state $XDG_STATE_HOME\n"
      "    echo last\n    command ls -t $state/dlrun/runs 2>/dev/null\nend\n\n";
  text += fmt::format("function __dlrun_keys\n    printf '%s\\n' {}\nend\n\n", join(set.keys, " "));
  text +=
      "function __dlrun_set\n    set -l token (commandline -ct)\n    if not string match -q '*=*' "
      "-- $token\n"
      "        __dlrun_keys\n        return\n    end\n    set -l key (string split -m1 = -- "
      "$token)[1]\n    set -l words\n"
      "    switch $key\n";
  for (const auto& [keys, words] : set.values) {
    std::string names = keys;
    std::replace(names.begin(), names.end(), '|', ' ');
    text += fmt::format("        case {}\n            set words {}\n", names, words);
  }
  std::string path_keys = set.path_keys;
  std::replace(path_keys.begin(), path_keys.end(), '|', ' ');
  text += fmt::format(
      "        case site\n            set words (dlrun completion --list sites 2>/dev/null)\n      "
      "  case launch.preset\n"
      "            set words (dlrun completion --list presets 2>/dev/null)\n        case {}\n"
      "            set words (__fish_complete_path (string split -m1 = -- $token)[2])\n    end\n"
      "    test (count $words) -gt 0; and printf \"$key=%s\\n\" $words\nend\n\ncomplete -c dlrun "
      "-f\n",
      path_keys);
  return text;
}

/// Returns the arguments of fish's `complete` for one option of dlrun: -l, -s, -d and others.
std::string option_arguments(const OptionHelp& option) {
  std::string text;
  for (const auto& name : option.names) {
    text += name.starts_with("--") ? fmt::format(" -l {}", name.substr(2))
                                   : fmt::format(" -s {}", name.substr(1));
  }
  if (value_kind_of(option) == ValueKind::kPath) {
    text += " -rF";
  } else if (value_kind_of(option) == ValueKind::kKeyAndValue) {
    text += " -x -a '(__dlrun_set)'";
  } else if (value_kind_of(option) == ValueKind::kSite) {
    text += " -x -a '(dlrun completion --list sites 2>/dev/null)'";
  } else if (value_kind_of(option) == ValueKind::kValue) {
    text += " -x";
  }
  text += fmt::format(" -d '{}'\n", quotes_as_backquotes(option.help));
  return text;
}

/// Returns the completions of one command's options and arguments.
std::string lines_of(const CommandHelp& command) {
  std::string text;
  const std::string line_start =
      fmt::format("complete -c dlrun -n '__fish_seen_subcommand_from {}'", command.name);
  const auto words = first_argument_choices(command);
  for (const auto& option : command.options) text += line_start + option_arguments(option);
  if (command.has_positional("RUN")) text += line_start + " -a '(__dlrun_runs)'\n";
  if (command.has_positional("KEY"))
    text += line_start + " -a '(__dlrun_keys | string trim -r -c .=)'\n";
  // If the first positional has a fixed set of values, fish offers values for the other positionals
  // only after one of the set.
  const std::string seen = fmt::format("__fish_seen_subcommand_from {}", join(words, " "));
  const auto line_start_if = [&](std::string_view condition) {
    return words.empty() ? line_start
                         : line_start.substr(0, line_start.size() - 1) +
                               fmt::format("; {} {}'", condition, seen);
  };
  if (command.has_positional("SITE"))
    text += line_start_if("and") + " -a '(dlrun completion --list sites 2>/dev/null)'\n";
  if (command.has_positional("HOST"))
    text += line_start_if("and") + " -a '(dlrun completion --list hosts 2>/dev/null)'\n";
  if (has_file_positional(command)) text += line_start_if("and") + " -F\n";
  if (!words.empty())
    text += fmt::format("{} -a '{}'\n", line_start_if("and not"), join(words, " "));
  return text;
}

}  // namespace

std::string fish_script(const CommandTable& table) {
  std::string text = first_comment("fish") + helpers();
  text +=
      "complete -c dlrun -n __fish_use_subcommand -s v -l verbose -d 'Log on stderr'\n"
      "complete -c dlrun -n __fish_use_subcommand -l log-file -rF -d 'Append the log to this "
      "file'\n"
      "complete -c dlrun -n __fish_use_subcommand -s H -l host -x -a '(dlrun completion --list "
      "hosts 2>/dev/null)' -d 'Run on this host'\n";
  for (const auto& command : table.commands) {
    text += fmt::format("complete -c dlrun -n __fish_use_subcommand -a {} -d '{}'\n", command.name,
                        quotes_as_backquotes(command.help));
  }
  for (const auto& command : table.commands) text += lines_of(command);
  return text;
}

}  // namespace dlrun::completion
