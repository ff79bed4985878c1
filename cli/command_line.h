#pragma once
// Classes with which a command declares its name, its options and positionals, and the variables
// that these set. CLI11 does the parsing. Only command_line.cc and app.cc include CLI11's headers,
// because these headers take longer to compile than a command's own code.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "cli/cli.h"
#include "launcher/help/command_table.h"

namespace CLI {
class Option;
}

namespace dlrun {

/// An option or a positional of a command. The setters below take effect at the next parsing. They
/// do nothing if `option` is nullptr: the option is not in the reduced tree (see Subcommand).
class CommandOption {
 public:
  explicit CommandOption(CLI::Option* option) : option_(option) {}
  CommandOption& required();
  /// Sets the name that help shows for the value, such as "DIR" or "N". Completion offers paths for
  /// DIR and FILE.
  CommandOption& type_name(const char* name);
  /// Refuses a value that is not a whole number from 0 to 2^63 - 1.
  CommandOption& non_negative();
  /// Refuses an empty value.
  CommandOption& not_empty();
  /// Allows the option any number of times, with one value each time.
  CommandOption& repeatable();

 private:
  CLI::Option* option_;
};

/// A command in the tree. The caller owns the bound variables; they must outlive the action.
///
/// There are two kinds of trees. The full tree has --help and all options. If the user has given no
/// option, dlrun builds the reduced tree instead, because each option takes time to build: its root
/// has no --help, and its commands have only their positionals and their required options.
class Subcommand {
 public:
  Subcommand(CLI::App& root, const char* name, const char* help);

  /// names: "-f,--follow", or "RUN" for a positional. `to` keeps its value, the default, if the
  /// command line does not have the option.
  CommandOption option(const char* names, std::string& to, const char* help);
  CommandOption option(const char* names, std::vector<std::string>& to, const char* help);
  CommandOption option(const char* names, std::optional<std::string>& to, const char* help);
  CommandOption option(const char* names, std::optional<std::int64_t>& to, const char* help);
  CommandOption option(const char* names, std::optional<std::size_t>& to, const char* help);
  CommandOption option(const char* names, std::size_t& to, const char* help);
  void flag(const char* names, bool& to, const char* help);
  /// Adds an option that the command line must contain.
  CommandOption required_option(const char* names, std::string& to, const char* help);

  /// Makes `call` the action of this command. `options` holds the bound variables.
  template <typename Options>
  void calls(Result<int> (*call)(Cli&, const std::type_identity_t<Options>&),
             const std::shared_ptr<Options>& options, Action& action) {
    on_parse([call, options, &action] {
      action = [call, options](Cli& cli) { return call(cli, *options); };
    });
  }

  /// Registers `call`. dlrun runs it when it parses a command line that calls this command.
  void on_parse(std::function<void()> call);

 private:
  template <typename Value>
  CommandOption add(const char* names, Value& to, const char* help);
  /// Returns true if a command line of this tree can contain the option or the positional.
  [[nodiscard]] bool is_in_tree(const char* names) const;

  CLI::App* app_;
  bool is_full_tree_;
};

/// Returns the options of dlrun itself, and all commands with their options and positionals.
[[nodiscard]] CommandTable command_table(const CLI::App& root);

}  // namespace dlrun
