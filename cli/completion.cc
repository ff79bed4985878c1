#include "cli/completion.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "common/text.h"
#include "launcher/spec/spec_keys.h"

namespace dlrun {
namespace {

/// The kind of value that an option takes, derived from the name that --help shows for it.
enum class Takes { kNothing, kValue, kPath, kSet, kSite };

struct CompletedOption {
  std::vector<std::string> names;  ///< "-f", "--follow"
  std::string help;
  Takes takes = Takes::kNothing;
};

struct CompletedCommand {
  std::string name, help;
  std::vector<CompletedOption> options;
  bool takes_run = false, takes_file = false, takes_key = false, takes_site = false;
  std::vector<std::string> words;  ///< the words of the first positional if it has a fixed set
};

[[nodiscard]] Takes takes_of(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return Takes::kNothing;
  const std::string type = option.get_type_name();
  if (type == "DIR" || type == "FILE") return Takes::kPath;
  if (type == "KEY=VALUE") return Takes::kSet;
  if (type == "SITE") return Takes::kSite;
  return Takes::kValue;
}

CompletedCommand describe(const CLI::App& app) {
  CompletedCommand command;
  command.name = app.get_name();
  command.help = app.get_description();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) {
      const auto name = option->get_name(true);
      if (name.find("RUN") != std::string::npos) command.takes_run = true;
      if (name.find("SPEC") != std::string::npos || name.find("IMAGE") != std::string::npos)
        command.takes_file = true;
      if (name.find("KEY") != std::string::npos) command.takes_key = true;
      if (name.find("SITE") != std::string::npos) command.takes_site = true;
      if (name.find("ACTION") != std::string::npos) command.words = {"list", "show"};
      if (name.find("VERB") != std::string::npos) {
        command.words = command.name == "bench" ? std::vector<std::string>{"collectives", "scaling"}
                                                : std::vector<std::string>{"import", "list"};
      }
      if (name.find("SHELL") != std::string::npos) command.words = {"bash", "zsh", "fish"};
      continue;
    }
    CompletedOption completed;
    for (const auto& name : option->get_snames()) completed.names.push_back("-" + name);
    for (const auto& name : option->get_lnames()) completed.names.push_back("--" + name);
    completed.help = option->get_description();
    completed.takes = takes_of(*option);
    command.options.push_back(std::move(completed));
  }
  return command;
}

std::vector<CompletedCommand> commands_of(const CLI::App& root) {
  std::vector<CompletedCommand> commands;
  for (const CLI::App* sub : root.get_subcommands([](const CLI::App*) { return true; }))
    commands.push_back(describe(*sub));
  return commands;
}

std::string all_names(const CompletedCommand& command) {
  std::vector<std::string> names;
  for (const auto& option : command.options)
    names.insert(names.end(), option.names.begin(), option.names.end());
  return join(names, " ");
}

/// Returns "submit:--runs | render:-o" for every option with this kind of value.
std::string cases_of(const std::vector<CompletedCommand>& commands, Takes takes) {
  std::vector<std::string> cases;
  for (const auto& command : commands) {
    for (const auto& option : command.options) {
      if (option.takes != takes) continue;
      for (const auto& name : option.names) cases.push_back(command.name + ":" + name);
    }
  }
  return join(cases, " | ");
}

/// Replaces single quotes, so that the text can stand inside single quotes in any of the
/// three shells.
std::string plain(std::string_view text) {
  std::string result;
  for (const char c : text) result += (c == '\'' ? '`' : c);
  return result;
}

/// The completions of --set: keys followed by '=', or by '.' if names of the user's own follow.
struct SetWords {
  std::vector<std::string> keys;
  std::vector<std::pair<std::string, std::string>>
      values;         ///< allowed words, and the keys ("a|b") that take them
  std::string paths;  ///< keys that take a path
};

SetWords set_words() {
  SetWords words;
  std::vector<std::string> switches, paths;
  for (const KeyRow& row : spec_keys()) {
    if (!row.is_supported()) continue;
    const std::string key(row.path);
    const bool is_map = std::holds_alternative<Access<NamedValues>>(row.field) ||
                        std::holds_alternative<Access<std::vector<SlurmOption>>>(row.field);
    words.keys.push_back(key + (is_map ? "." : "="));
    if (row.format == Format::kChoice) words.values.emplace_back(key, std::string(row.choices));
    if (std::holds_alternative<Access<std::optional<bool>>>(row.field) ||
        row.format == Format::kFlag)
      switches.push_back(key);
    const bool is_path = row.format == Format::kPath || row.format == Format::kMaybePath ||
                         row.format == Format::kImage || row.format == Format::kPattern;
    if (is_path) paths.push_back(key);
  }
  words.values.emplace_back(join(switches, "|"), "true false");
  words.paths = join(paths, "|");
  return words;
}

constexpr std::string_view kNote =
    "# Made by `dlrun completion {}` from the tree of commands and the key table; a test keeps it "
    "equal.\n";

// compgen -W would expand every word, also `$(...)` in the name of a run. Names that dlrun makes
// need no quotes; _dlrun_offer leaves out all others.
constexpr std::string_view kBashOffer = R"(_dlrun_offer() { # PREFIX WORD WORDS
  local IFS=$' \t\n' names name
  read -r -d '' -a names <<<"$3"
  for name in "${names[@]}"; do
    [[ $name != "$2"* || $name == *[![:alnum:]._=-]* ]] || COMPREPLY+=("$1$name")
  done
}
)";

// bash splits KEY=VALUE into three words, because '=' is in COMP_WORDBREAKS, unless the user has
// removed it from there.
constexpr std::string_view kBashSet = R"(_dlrun_set() {
  local key=$1 word=$2 prefix=$3 words=''
  case $key in
@VALUES@    site) words=$(dlrun completion --list sites 2>/dev/null) ;;
    launch.preset) words=$(dlrun completion --list presets 2>/dev/null) ;;
    @PATHS@) mapfile -t COMPREPLY < <(compgen -P "$prefix" -f -- "$word"); return ;;
  esac
  compopt +o filenames # which would quote the '='
  _dlrun_offer "$prefix" "$word" "$words"
}
)";

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const auto at = text.find(from);
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string bash(const std::vector<CompletedCommand>& commands) {
  const SetWords set = set_words();
  std::string text = fmt::format(fmt::runtime(kNote), "bash");
  text += "# shellcheck shell=bash\n";
  std::string values;
  for (const auto& [keys, words] : set.values)
    values += fmt::format("    {}) words='{}' ;;\n", keys, words);
  text += kBashOffer;
  text += replaced(replaced(std::string(kBashSet), "@VALUES@", values), "@PATHS@", set.paths);
  text +=
      "_dlrun() {\n  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} "
      "command='' i\n";
  text += fmt::format("  local keys='{}'\n", join(set.keys, " "));
  text += "  COMPREPLY=()\n";
  text +=
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n    [[ ${COMP_WORDS[i]} == -* ]] || { "
      "command=${COMP_WORDS[i]}; "
      "break; }\n  done\n";
  std::vector<std::string> names;
  for (const auto& command : commands) names.push_back(command.name);
  text += fmt::format(
      "  if [[ -z $command ]]; then\n"
      "    _dlrun_offer '' \"$word\" '{} --help --version'\n"
      "    return\n  fi\n",
      join(names, " "));
  text +=
      "  if [[ $word == '=' && ${COMP_WORDS[COMP_CWORD-2]} == --set ]]; then\n    _dlrun_set "
      "\"$previous\" '' ''\n    "
      "return\n  fi\n"
      "  if ((COMP_CWORD > 3)) && [[ $previous == '=' && ${COMP_WORDS[COMP_CWORD-3]} == --set ]]; "
      "then\n"
      "    _dlrun_set \"${COMP_WORDS[COMP_CWORD-2]}\" \"$word\" ''\n    return\n  fi\n";
  text += "  local options='' runs='' verbs='' words='' files=''\n  case $command in\n";
  for (const auto& command : commands) {
    text += fmt::format("    {}) options='{}'", command.name, all_names(command));
    if (command.takes_run) text += " runs=1";
    if (command.takes_key) text += " words=${keys//[=]/} files=1 words=${words//. / }";
    if (command.takes_site) text += " words=$(dlrun completion --list sites 2>/dev/null)";
    if (!command.words.empty()) text += fmt::format(" verbs='{}'", join(command.words, " "));
    text += " ;;\n";
  }
  text +=
      "  esac\n"
      "  for ((i++; i < COMP_CWORD; i++)); do\n"
      "    [[ \" $verbs \" == *\" ${COMP_WORDS[i]} \"* ]] && verbs=''\n"
      "  done\n"
      "  case $command:$previous in\n";
  text += fmt::format("    {}) mapfile -t COMPREPLY < <(compgen -f -- \"$word\"); return ;;\n",
                      cases_of(commands, Takes::kPath));
  text += fmt::format(
      "    {})\n      if [[ $word == *=* ]]; then\n        _dlrun_set \"${{word%%=*}}\" "
      "\"${{word#*=}}\" "
      "\"${{word%%=*}}=\"\n"
      "      else\n"
      "        _dlrun_offer '' \"$word\" \"$keys\"\n"
      "        compopt -o nospace +o filenames\n"
      "      fi\n"
      "      return ;;\n",
      cases_of(commands, Takes::kSet));
  if (const auto sites = cases_of(commands, Takes::kSite); !sites.empty()) {
    text += fmt::format(
        "    {})\n"
        "      _dlrun_offer '' \"$word\" \"$(dlrun completion --list sites 2>/dev/null)\"\n"
        "      return ;;\n",
        sites);
  }
  text += "  esac\n";
  text +=
      "  if [[ $word == -* ]]; then\n    _dlrun_offer '' \"$word\" \"$options\"\n"
      "  elif [[ -n $verbs ]]; then\n    _dlrun_offer '' \"$word\" \"$verbs\"\n"
      "  elif [[ -n $words ]]; then\n"
      "    [[ -z $files ]] || mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
      "    _dlrun_offer '' \"$word\" \"$words\"\n"
      "  elif [[ -n $runs ]]; then\n"
      "    local state=${XDG_STATE_HOME:-$HOME/.local/state}/dlrun/runs\n"
      "    words=$(command ls -t \"$state\" 2>/dev/null | head -n 200)\n"
      "    _dlrun_offer '' \"$word\" \"last $words\"\n"
      "  else\n    mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n  fi\n}\n"
      "complete -o filenames -F _dlrun dlrun\n";
  return text;
}

std::string zsh(const std::vector<CompletedCommand>& commands) {
  const auto bracketed = [](std::string_view help) {
    std::string result;
    for (const char c : plain(help)) {
      if (c == '[' || c == ']' || c == ':') result += '\\';
      result += c;
    }
    return result;
  };
  const auto action = [](Takes takes) -> std::string_view {
    switch (takes) {
      case Takes::kNothing:
        return "";
      case Takes::kValue:
        return ":value:";
      case Takes::kPath:
        return ":path:_files";
      case Takes::kSet:
        return ":key:_dlrun_set";
      case Takes::kSite:
        return ":site:_dlrun_sites";
    }
    return "";
  };
  const SetWords set = set_words();
  std::string text = "#compdef dlrun\n" + fmt::format(fmt::runtime(kNote), "zsh");
  text +=
      "_dlrun_runs() {\n  local state=${XDG_STATE_HOME:-$HOME/.local/state}/dlrun/runs\n  local -a "
      "runs\n"
      "  runs=(last $state/*(N:t))\n  compadd -a runs\n}\n\n";
  text +=
      "_dlrun_sites() {\n  compadd -- ${(f)\"$(dlrun completion --list sites "
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
      "presets "
      "2>/dev/null)\"}} ;;\n"
      "    {}) _files ;;\n  esac\n}}\n\n",
      set.paths);
  text +=
      "_dlrun() {\n  local context state line\n  typeset -A opt_args\n  _arguments -C '--help[Show "
      "help]' "
      "'--version[Show the version]' '1: :->command' '*:: :->rest' && return\n";
  text += "  case $state in\n    command)\n      local -a commands\n      commands=(\n";
  for (const auto& command : commands)
    text += fmt::format("        '{}:{}'\n", command.name, bracketed(command.help));
  text +=
      "      )\n      _describe command commands\n      ;;\n    rest)\n      case $words[1] in\n";
  for (const auto& command : commands) {
    text += fmt::format("        {})\n          _arguments", command.name);
    for (const auto& option : command.options) {
      for (const auto& name : option.names)
        text += fmt::format(" \\\n            '*{}[{}]{}'", name, bracketed(option.help),
                            action(option.takes));
    }
    if (command.takes_run) text += " \\\n            '*:run:_dlrun_runs'";
    if (command.takes_key) {
      text += " \\\n            '1:key or spec:_dlrun_explained'";
    } else if (command.takes_file) {
      text += fmt::format(" \\\n            '{}:spec:_files'", command.words.empty() ? "1" : "2");
    }
    if (command.takes_site) text += " \\\n            '*:site:_dlrun_sites'";
    if (!command.words.empty())
      text += fmt::format(" \\\n            '1:word:({})'", join(command.words, " "));
    text += "\n          ;;\n";
  }
  text +=
      "      esac\n      ;;\n  esac\n}\n\nif [[ $funcstack[1] == _dlrun ]]; then\n  _dlrun "
      "\"$@\"\nelse\n  compdef "
      "_dlrun dlrun\nfi\n";
  return text;
}

std::string fish(const std::vector<CompletedCommand>& commands) {
  const SetWords set = set_words();
  std::string text = fmt::format(fmt::runtime(kNote), "fish");
  text +=
      "function __dlrun_runs\n    set -l state $HOME/.local/state\n    set -q XDG_STATE_HOME; and "
      "set state "
      "$XDG_STATE_HOME\n"
      "    echo last\n    command ls -t $state/dlrun/runs 2>/dev/null\nend\n\n";
  text += fmt::format("function __dlrun_keys\n    printf '%s\\n' {}\nend\n\n", join(set.keys, " "));
  text +=
      "function __dlrun_set\n    set -l token (commandline -ct)\n    if not string match -q '*=*' "
      "-- $token\n"
      "        __dlrun_keys\n        return\n    end\n    set -l key (string split -m1 = -- "
      "$token)[1]\n    set -l "
      "words\n"
      "    switch $key\n";
  for (const auto& [keys, words] : set.values) {
    std::string names = keys;
    std::replace(names.begin(), names.end(), '|', ' ');
    text += fmt::format("        case {}\n            set words {}\n", names, words);
  }
  std::string paths = set.paths;
  std::replace(paths.begin(), paths.end(), '|', ' ');
  text += fmt::format(
      "        case site\n            set words (dlrun completion --list sites 2>/dev/null)\n      "
      "  case "
      "launch.preset\n"
      "            set words (dlrun completion --list presets 2>/dev/null)\n        case {}\n"
      "            set words (__fish_complete_path (string split -m1 = -- $token)[2])\n    end\n"
      "    test (count $words) -gt 0; and printf \"$key=%s\\n\" $words\nend\n\ncomplete -c dlrun "
      "-f\n",
      paths);
  for (const auto& command : commands) {
    text += fmt::format("complete -c dlrun -n __fish_use_subcommand -a {} -d '{}'\n", command.name,
                        plain(command.help));
  }
  for (const auto& command : commands) {
    const std::string when =
        fmt::format("complete -c dlrun -n '__fish_seen_subcommand_from {}'", command.name);
    for (const auto& option : command.options) {
      text += when;
      for (const auto& name : option.names) {
        text += name.starts_with("--") ? fmt::format(" -l {}", name.substr(2))
                                       : fmt::format(" -s {}", name.substr(1));
      }
      if (option.takes == Takes::kPath) {
        text += " -rF";
      } else if (option.takes == Takes::kSet) {
        text += " -x -a '(__dlrun_set)'";
      } else if (option.takes == Takes::kSite) {
        text += " -x -a '(dlrun completion --list sites 2>/dev/null)'";
      } else if (option.takes == Takes::kValue) {
        text += " -x";
      }
      text += fmt::format(" -d '{}'\n", plain(option.help));
    }
    if (command.takes_run) text += when + " -a '(__dlrun_runs)'\n";
    if (command.takes_key) text += when + " -a '(__dlrun_keys | string trim -r -c .=)'\n";
    // The other positionals follow one of the words.
    const std::string seen =
        fmt::format("__fish_seen_subcommand_from {}", join(command.words, " "));
    const auto where = [&](std::string_view condition) {
      return command.words.empty()
                 ? when
                 : when.substr(0, when.size() - 1) + fmt::format("; {} {}'", condition, seen);
    };
    if (command.takes_site)
      text += where("and") + " -a '(dlrun completion --list sites 2>/dev/null)'\n";
    if (command.takes_file) text += where("and") + " -F\n";
    if (!command.words.empty())
      text += fmt::format("{} -a '{}'\n", where("and not"), join(command.words, " "));
  }
  return text;
}

}  // namespace

Result<std::string> completion_script(const CLI::App& root, const std::string& shell) {
  const auto commands = commands_of(root);
  if (shell == "bash") return bash(commands);
  if (shell == "zsh") return zsh(commands);
  if (shell == "fish") return fish(commands);
  return fail(Errc::kUsage, "no completion for '{}': bash, zsh and fish have one",
              printable(shell));
}

}  // namespace dlrun
