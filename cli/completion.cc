#include "cli/completion.h"

#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "common/text.h"

namespace dlrun {
namespace {

struct CompletedOption {
  std::vector<std::string> names;  ///< "-f", "--follow"
  std::string help;
  bool takes_value = false;
  bool takes_path = false;
};

struct CompletedCommand {
  std::string name, help;
  std::vector<CompletedOption> options;
  bool takes_run = false, takes_file = false;
  std::vector<std::string> words;  ///< of a positional with a fixed set
};

CompletedCommand describe(const CLI::App& app) {
  CompletedCommand command;
  command.name = app.get_name();
  command.help = app.get_description();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) {
      const auto name = option->get_name(true);
      if (name.find("RUN") != std::string::npos) command.takes_run = true;
      if (name.find("SPEC") != std::string::npos) command.takes_file = true;
      if (name.find("SHELL") != std::string::npos) command.words = {"bash", "zsh", "fish"};
      continue;
    }
    CompletedOption completed;
    for (const auto& name : option->get_snames()) completed.names.push_back("-" + name);
    for (const auto& name : option->get_lnames()) completed.names.push_back("--" + name);
    completed.help = option->get_description();
    completed.takes_value = option->get_items_expected_max() > 0;
    const std::string type = option->get_type_name();
    completed.takes_path = type == "DIR" || type == "FILE";
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
  for (const auto& option : command.options) names.insert(names.end(), option.names.begin(), option.names.end());
  return join(names, " ");
}

/// For single quotes of any of the three shells: our help texts hold none.
std::string plain(std::string_view text) {
  std::string result;
  for (const char c : text) result += (c == '\'' ? '`' : c);
  return result;
}

constexpr std::string_view kNote =
    "# Made by `dlrun completion {}` from the tree of commands; a test keeps it equal.\n";

std::string bash(const std::vector<CompletedCommand>& commands) {
  std::string text = fmt::format(fmt::runtime(kNote), "bash");
  text += "# shellcheck shell=bash\n";
  text += "_dlrun() {\n  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command='' i\n";
  text += "  COMPREPLY=()\n";
  text +=
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n    [[ ${COMP_WORDS[i]} == -* ]] || { command=${COMP_WORDS[i]}; "
      "break; }\n  done\n";
  std::vector<std::string> names;
  for (const auto& command : commands) names.push_back(command.name);
  text += fmt::format(
      "  if [[ -z $command ]]; then\n    mapfile -t COMPREPLY < <(compgen -W '{} --help --version' -- \"$word\")\n    "
      "return\n  fi\n",
      join(names, " "));
  text += "  local options='' runs='' words=''\n  case $command in\n";
  for (const auto& command : commands) {
    text += fmt::format("    {}) options='{}'", command.name, all_names(command));
    if (command.takes_run) text += " runs=1";
    if (!command.words.empty()) text += fmt::format(" words='{}'", join(command.words, " "));
    text += " ;;\n";
  }
  text += "  esac\n";
  std::vector<std::string> paths;
  for (const auto& command : commands) {
    for (const auto& option : command.options) {
      for (const auto& name : option.names) {
        const std::string key = command.name + ":" + name;
        if (option.takes_path) paths.push_back(key);
      }
    }
  }
  text += fmt::format(
      "  case $command:$previous in\n    {}) mapfile -t COMPREPLY < <(compgen -f -- \"$word\"); return ;;\n  esac\n",
      join(paths, " | "));
  text +=
      "  if [[ $word == -* ]]; then\n    mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\")\n"
      "  elif [[ -n $words ]]; then\n    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
      "  elif [[ -n $runs ]]; then\n"
      "    local state=${XDG_STATE_HOME:-$HOME/.local/state}/dlrun/runs\n"
      "    mapfile -t COMPREPLY < <(compgen -W \"last $(command ls -t \"$state\" 2>/dev/null | head -n 200)\" -- "
      "\"$word\")\n"
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
  std::string text = "#compdef dlrun\n" + fmt::format(fmt::runtime(kNote), "zsh");
  text +=
      "_dlrun_runs() {\n  local state=${XDG_STATE_HOME:-$HOME/.local/state}/dlrun/runs\n  local -a runs\n"
      "  runs=(last $state/*(N:t))\n  compadd -a runs\n}\n\n";
  text +=
      "_dlrun() {\n  local context state line\n  typeset -A opt_args\n  _arguments -C '--help[Show help]' "
      "'--version[Show the version]' '1: :->command' '*:: :->rest' && return\n";
  text += "  case $state in\n    command)\n      local -a commands\n      commands=(\n";
  for (const auto& command : commands) text += fmt::format("        '{}:{}'\n", command.name, bracketed(command.help));
  text += "      )\n      _describe command commands\n      ;;\n    rest)\n      case $words[1] in\n";
  for (const auto& command : commands) {
    text += fmt::format("        {})\n          _arguments", command.name);
    for (const auto& option : command.options) {
      for (const auto& name : option.names) {
        text += fmt::format(" \\\n            '*{}[{}]{}'", name, bracketed(option.help),
                            option.takes_path ? ":path:_files" : (option.takes_value ? ":value:" : ""));
      }
    }
    if (command.takes_run) text += " \\\n            '*:run:_dlrun_runs'";
    if (command.takes_file) text += " \\\n            '1:spec:_files'";
    if (!command.words.empty()) text += fmt::format(" \\\n            '1:shell:({})'", join(command.words, " "));
    text += "\n          ;;\n";
  }
  text +=
      "      esac\n      ;;\n  esac\n}\n\nif [[ $funcstack[1] == _dlrun ]]; then\n  _dlrun \"$@\"\nelse\n  compdef "
      "_dlrun dlrun\nfi\n";
  return text;
}

std::string fish(const std::vector<CompletedCommand>& commands) {
  std::string text = fmt::format(fmt::runtime(kNote), "fish");
  text +=
      "function __dlrun_runs\n    set -l state $HOME/.local/state\n    set -q XDG_STATE_HOME; and set state "
      "$XDG_STATE_HOME\n"
      "    echo last\n    command ls -t $state/dlrun/runs 2>/dev/null\nend\n\ncomplete -c dlrun -f\n";
  for (const auto& command : commands) {
    text +=
        fmt::format("complete -c dlrun -n __fish_use_subcommand -a {} -d '{}'\n", command.name, plain(command.help));
  }
  for (const auto& command : commands) {
    const std::string when = fmt::format("complete -c dlrun -n '__fish_seen_subcommand_from {}'", command.name);
    for (const auto& option : command.options) {
      text += when;
      for (const auto& name : option.names) {
        text += name.starts_with("--") ? fmt::format(" -l {}", name.substr(2)) : fmt::format(" -s {}", name.substr(1));
      }
      if (option.takes_value) text += option.takes_path ? " -rF" : " -x";
      text += fmt::format(" -d '{}'\n", plain(option.help));
    }
    if (command.takes_run) text += when + " -a '(__dlrun_runs)'\n";
    if (command.takes_file) text += when + " -F\n";
    if (!command.words.empty()) text += fmt::format("{} -a '{}'\n", when, join(command.words, " "));
  }
  return text;
}

}  // namespace

Result<std::string> completion_script(const CLI::App& root, const std::string& shell) {
  const auto commands = commands_of(root);
  if (shell == "bash") return bash(commands);
  if (shell == "zsh") return zsh(commands);
  if (shell == "fish") return fish(commands);
  return fail(Errc::kUsage, "no completion for '{}': bash, zsh and fish have one", printable(shell));
}

}  // namespace dlrun
