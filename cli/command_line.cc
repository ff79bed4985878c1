#include "cli/command_line.h"

#include <limits>
#include <utility>

#include <CLI/CLI.hpp>

#include "common/text.h"

namespace dlrun {
namespace {

OptionHelp help_of(const CLI::Option& option) {
  OptionHelp help;
  for (const auto& name : option.get_snames()) help.names.push_back("-" + name);
  for (const auto& name : option.get_lnames()) help.names.push_back("--" + name);
  help.help = option.get_description();
  if (option.get_items_expected_max() > 0) help.value_name = option.get_type_name();
  return help;
}

}  // namespace

CommandOption& CommandOption::required() {
  if (option_ != nullptr) option_->required();
  return *this;
}

CommandOption& CommandOption::type_name(const char* name) {
  if (option_ != nullptr) option_->type_name(name);
  return *this;
}

CommandOption& CommandOption::non_negative() {
  if (option_ == nullptr) return *this;
  option_->check([](const std::string& text) {
    const auto number = parse_int(text);
    return number && *number >= 0
               ? std::string()
               : fmt::format("'{}' is not a whole number from 0 to {}", printable(text),
                             std::numeric_limits<std::int64_t>::max());
  });
  return *this;
}

CommandOption& CommandOption::not_empty() {
  if (option_ == nullptr) return *this;
  option_->check([](const std::string& text) {
    return std::string(text.empty() ? "the value is empty" : "");
  });
  return *this;
}

CommandOption& CommandOption::repeatable() {
  if (option_ != nullptr) option_->allow_extra_args(false)->take_all();
  return *this;
}

Subcommand::Subcommand(CLI::App& root, const char* name, const char* help)
    : app_(root.add_subcommand(name, help)), is_full_tree_(root.get_help_ptr() != nullptr) {}

bool Subcommand::is_in_tree(const char* names) const {
  return is_full_tree_ || names[0] != '-';
}

template <typename Value>
CommandOption Subcommand::add(const char* names, Value& to, const char* help) {
  return CommandOption(is_in_tree(names) ? app_->add_option(names, to, help) : nullptr);
}

CommandOption Subcommand::option(const char* names, std::string& to, const char* help) {
  return add(names, to, help);
}
CommandOption Subcommand::option(const char* names, std::vector<std::string>& to,
                                 const char* help) {
  return add(names, to, help);
}
CommandOption Subcommand::option(const char* names, std::optional<std::string>& to,
                                 const char* help) {
  return add(names, to, help);
}
CommandOption Subcommand::option(const char* names, std::optional<std::int64_t>& to,
                                 const char* help) {
  return add(names, to, help);
}
CommandOption Subcommand::option(const char* names, std::optional<std::size_t>& to,
                                 const char* help) {
  return add(names, to, help);
}
CommandOption Subcommand::option(const char* names, std::size_t& to, const char* help) {
  return add(names, to, help);
}

CommandOption Subcommand::required_option(const char* names, std::string& to, const char* help) {
  return CommandOption(app_->add_option(names, to, help)->required());
}

void Subcommand::flag(const char* names, bool& to, const char* help) {
  if (is_in_tree(names)) app_->add_flag(names, to, help);
}

void Subcommand::on_parse(std::function<void()> call) {
  app_->callback(std::move(call));
}

CommandTable command_table(const CLI::App& root) {
  CommandTable table;
  for (const CLI::Option* option : root.get_options()) table.options.push_back(help_of(*option));
  for (const CLI::App* command : root.get_subcommands([](const CLI::App*) { return true; })) {
    CommandHelp& help = table.commands.emplace_back();
    help.name = command->get_name();
    help.help = command->get_description();
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_positional()) {
        help.positionals.push_back(
            {option->get_name(true), option->get_required(), option->get_items_expected_max() > 1});
        continue;
      }
      help.options.push_back(help_of(*option));
    }
  }
  return table;
}

}  // namespace dlrun
