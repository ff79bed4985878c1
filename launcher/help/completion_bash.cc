// The completion script of bash.

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "common/text.h"
#include "launcher/help/completion_parts.h"

namespace dlrun::completion {
namespace {

std::string option_names_of(const CommandHelp& command) {
  std::vector<std::string> names;
  for (const auto& option : command.options)
    names.insert(names.end(), option.names.begin(), option.names.end());
  return join(names, " ");
}

/// Returns the pattern of a `case` that matches every option with this kind of value, after its
/// command: "submit:--runs | render:-o".
std::string case_pattern_of(const CommandTable& table, ValueKind kind) {
  std::vector<std::string> cases;
  for (const auto& command : table.commands) {
    for (const auto& option : command.options) {
      if (value_kind_of(option) != kind) continue;
      for (const auto& name : option.names) cases.push_back(command.name + ":" + name);
    }
  }
  return join(cases, " | ");
}

// The script uses _dlrun_offer instead of compgen -W, which would expand every word, even `$(...)`
// in the name of a run. _dlrun_offer offers those of CANDIDATES (one text) that start with
// TYPED, each with PREFIX before it. It skips names that need quotes; dlrun creates no such names.
constexpr std::string_view kBashOffer = R"(_dlrun_offer() { # PREFIX TYPED CANDIDATES
  local IFS=$' \t\n' names name
  read -r -d '' -a names <<<"$3"
  for name in "${names[@]}"; do
    [[ $name != "$2"* || $name == *[![:alnum:]._=-]* ]] || COMPREPLY+=("$1$name")
  done
}
)";

// bash splits KEY=VALUE into three words, unless the user has removed '=' from COMP_WORDBREAKS.
constexpr std::string_view kBashSet = R"(_dlrun_set() {
  local key=$1 word=$2 prefix=$3 words=''
  case $key in
@VALUES@    site) words=$(dlrun completion --list sites 2>/dev/null) ;;
    launch.preset) words=$(dlrun completion --list presets 2>/dev/null) ;;
    @PATHS@) mapfile -t COMPREPLY < <(compgen -P "$prefix" -f -- "$word"); return ;;
  esac
  compopt +o filenames # the option `filenames` would quote the '='
  _dlrun_offer "$prefix" "$word" "$words"
}
)";

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const auto at = text.find(from);
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

/// Returns the functions _dlrun_offer and _dlrun_set, which complete one word and the value of
/// --set.
std::string helpers(const SetOptionCompletions& set) {
  std::string values;
  for (const auto& [keys, words] : set.values)
    values += fmt::format("    {}) words='{}' ;;\n", keys, words);
  return std::string(kBashOffer) +
         replaced(replaced(std::string(kBashSet), "@VALUES@", values), "@PATHS@", set.path_keys);
}

/// Returns the start of the function that bash calls. This part finds the command. It completes the
/// name of a command, dlrun's own long options, the host of -H, and a value of --set that bash has
/// split.
std::string beginning(const CommandTable& table, const SetOptionCompletions& set) {
  std::string text =
      "_dlrun() {\n  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} "
      "command='' i\n";
  text += fmt::format("  local keys='{}'\n", join(set.keys, " "));
  text += "  COMPREPLY=()\n";
  text +=
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    [[ ${COMP_WORDS[i]} == @(--log-file|--host|-H) ]] && { ((i++)); continue; }\n"
      "    [[ ${COMP_WORDS[i]} == -* ]] || { command=${COMP_WORDS[i]}; break; }\n  done\n";
  text +=
      "  if [[ -z $command && $previous == @(--host|-H) ]]; then\n"
      "    _dlrun_offer '' \"$word\" \"$(dlrun completion --list hosts 2>/dev/null)\"\n"
      "    return\n  fi\n";
  std::vector<std::string> names;
  for (const auto& command : table.commands) names.push_back(command.name);
  for (const auto& option : table.options) {
    std::copy_if(option.names.begin(), option.names.end(), std::back_inserter(names),
                 [](const std::string& name) { return name.starts_with("--"); });
  }
  text += fmt::format(
      "  if [[ -z $command ]]; then\n"
      "    _dlrun_offer '' \"$word\" '{}'\n"
      "    return\n  fi\n",
      join(names, " "));
  text +=
      "  if [[ $word == '=' && ${COMP_WORDS[COMP_CWORD-2]} == --set ]]; then\n    _dlrun_set "
      "\"$previous\" '' ''\n    return\n  fi\n"
      "  if ((COMP_CWORD > 3)) && [[ $previous == '=' && ${COMP_WORDS[COMP_CWORD-3]} == --set ]]; "
      "then\n"
      "    _dlrun_set \"${COMP_WORDS[COMP_CWORD-2]}\" \"$word\" ''\n    return\n  fi\n";
  return text;
}

/// Returns the cases that list the options and arguments of each command, and the start of the
/// `case` that cases_of_options() continues.
std::string cases_of_commands(const CommandTable& table) {
  std::string text;
  text += "  local options='' runs='' verbs='' words='' files=''\n  case $command in\n";
  for (const auto& command : table.commands) {
    text += fmt::format("    {}) options='{}'", command.name, option_names_of(command));
    if (command.has_positional("RUN")) text += " runs=1";
    if (command.has_positional("KEY")) text += " words=${keys//[=]/} files=1 words=${words//. / }";
    if (command.has_positional("SITE"))
      text += " words=$(dlrun completion --list sites 2>/dev/null)";
    if (command.has_positional("HOST"))
      text += " words=$(dlrun completion --list hosts 2>/dev/null)";
    if (const auto words = first_argument_choices(command); !words.empty())
      text += fmt::format(" verbs='{}'", join(words, " "));
    text += " ;;\n";
  }
  text +=
      "  esac\n"
      "  for ((i++; i < COMP_CWORD; i++)); do\n"
      "    [[ \" $verbs \" == *\" ${COMP_WORDS[i]} \"* ]] && verbs=''\n"
      "  done\n"
      "  case $command:$previous in\n";
  return text;
}

/// Returns the cases for the values of options, and the end of their `case`.
std::string cases_of_options(const CommandTable& table) {
  std::string text;
  text += fmt::format("    {}) mapfile -t COMPREPLY < <(compgen -f -- \"$word\"); return ;;\n",
                      case_pattern_of(table, ValueKind::kPath));
  text += fmt::format(
      "    {})\n      if [[ $word == *=* ]]; then\n        _dlrun_set \"${{word%%=*}}\" "
      "\"${{word#*=}}\" \"${{word%%=*}}=\"\n"
      "      else\n"
      "        _dlrun_offer '' \"$word\" \"$keys\"\n"
      "        compopt -o nospace +o filenames\n"
      "      fi\n"
      "      return ;;\n",
      case_pattern_of(table, ValueKind::kKeyAndValue));
  if (const auto sites = case_pattern_of(table, ValueKind::kSite); !sites.empty()) {
    text += fmt::format(
        "    {})\n"
        "      _dlrun_offer '' \"$word\" \"$(dlrun completion --list sites 2>/dev/null)\"\n"
        "      return ;;\n",
        sites);
  }
  text += "  esac\n";
  return text;
}

constexpr std::string_view kEnd =
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

}  // namespace

std::string bash_script(const CommandTable& table) {
  const SetOptionCompletions set = completions_of_set_option();
  return first_comment("bash") + "# shellcheck shell=bash\n" + helpers(set) +
         beginning(table, set) + cases_of_commands(table) + cases_of_options(table) +
         std::string(kEnd);
}

}  // namespace dlrun::completion
