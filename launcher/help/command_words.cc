#include "launcher/help/command_words.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "common/text.h"

namespace dlrun {
namespace {

/// Returns "; did you mean 'status'?"; "" if no name is similar to the word.
std::string suggestion_text(const std::string& word, const std::vector<std::string>& names) {
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const auto meant = nearest(word, candidates);
  return meant ? fmt::format("; did you mean '{}'?", *meant) : "";
}

/// Each pair: a word that other programs have for a command, and dlrun's command.
constexpr std::pair<std::string_view, std::string_view> kOtherWords[] = {
    {"delete", "rm"},
    {"kill", "cancel"},
    {"list", "ls"},
    {"ps", "ls"},
    {"queue", "ls"},
    {"remove", "rm"},
    {"salloc", "interactive"},
    {"sbatch", "submit"},
    {"scancel", "cancel"},
    {"shell", "interactive"},
    {"squeue", "ls"},
    {"srun", "submit"},
    {"start", "submit"},
    {"stop", "cancel"},
    {"tail", "logs"},
    {"validate", "check"},
};

/// Returns "; did you mean 'cancel'?" for a command of another program; else as suggestion_text()
/// does.
std::string command_suggestion_text(const std::string& word,
                                    const std::vector<std::string>& names) {
  for (const auto& [other_word, command] : kOtherWords) {
    if (word == other_word) return fmt::format("; did you mean '{}'?", command);
  }
  return suggestion_text(word, names);
}

const OptionHelp* option_of_name(const std::vector<OptionHelp>& options, const std::string& name) {
  for (const OptionHelp& option : options) {
    if (std::find(option.names.begin(), option.names.end(), name) != option.names.end())
      return &option;
  }
  return nullptr;
}

std::vector<std::string> long_names(const std::vector<OptionHelp>& options) {
  std::vector<std::string> names;
  for (const OptionHelp& option : options) {
    for (const std::string& name : option.names) {
      if (name.starts_with("--")) names.push_back(name);
    }
  }
  return names;
}

/// Returns a message about the first unknown option before `--`; nullopt if there is none. The
/// parser's message could be about an argument after `--` instead.
std::optional<std::string> unknown_option_text(const CommandTable& table,
                                               const std::vector<std::string>& words) {
  const CommandHelp* command = nullptr;
  for (std::size_t at = 1; at < words.size() && words[at] != "--"; ++at) {
    const std::string& word = words[at];
    if (word.size() < 2 || word[0] != '-') {
      const auto named = std::find_if(table.commands.begin(), table.commands.end(),
                                      [&](const CommandHelp& one) { return one.name == word; });
      if (command == nullptr && named != table.commands.end()) command = &*named;
      continue;
    }
    const auto& options = command != nullptr ? command->options : table.options;
    const std::string name =
        word.starts_with("--") ? word.substr(0, word.find('=')) : word.substr(0, 2);
    if (const OptionHelp* option = option_of_name(options, name); option != nullptr) {
      if (!option->value_name.empty() && name == word)
        ++at;  // skips the option's value, even if it looks like an option
      continue;
    }
    return fmt::format("`dlrun{}` has no option '{}'{}",
                       command != nullptr ? " " + command->name : "", printable(name),
                       suggestion_text(name, long_names(options)));
  }
  return std::nullopt;
}

}  // namespace

std::string command_word_in(const std::vector<std::string>& words) {
  for (std::size_t at = 1; at < words.size(); ++at) {
    const std::string& word = words[at];
    const bool is_verbose = word == "--verbose" ||
                            (word.starts_with("-v") && word.find_first_not_of('v', 1) == word.npos);
    const bool has_value_inside = word.starts_with("--log-file=") || word.starts_with("--host=") ||
                                  (word.starts_with("-H") && word.size() > 2);
    if (word == "--log-file" || word == "--host" || word == "-H") {
      ++at;
    } else if (!is_verbose && !has_value_inside) {
      return word;
    }
  }
  return {};
}

std::optional<std::string> second_spec_text(const CommandTable& table, const std::string& command,
                                            const std::string& argument) {
  if (!argument.ends_with(".yaml") && !argument.ends_with(".yml")) return std::nullopt;
  for (const CommandHelp& one : table.commands) {
    if (one.name != command) continue;
    for (const PositionalHelp& positional : one.positionals) {
      if (positional.name != "SPEC" || positional.is_repeatable) continue;
      return fmt::format(
          "`dlrun {0}` takes one spec, so '{1}' is not expected; call `dlrun {0}` "
          "once for each spec",
          command, printable(argument));
    }
  }
  return std::nullopt;
}

std::string refused_command_line_text(const CommandTable& table, bool is_command_known,
                                      const std::vector<std::string>& words,
                                      const std::string& message) {
  if (is_command_known) return unknown_option_text(table, words).value_or(message);
  const std::string called = command_word_in(words);
  if (called.empty()) return message;
  if (called.starts_with('-')) return unknown_option_text(table, words).value_or(message);
  std::vector<std::string> names;
  for (const CommandHelp& command : table.commands) names.push_back(command.name);
  return fmt::format("'{}' is not a command of dlrun{}", printable(called),
                     command_suggestion_text(called, names));
}

}  // namespace dlrun
