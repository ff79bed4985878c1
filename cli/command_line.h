#pragma once
// One command's words: its name, options and positionals, each bound to the variable that it sets.
// CLI11 does the work; only command_line.cc, app.cc and completion.cc read its headers, which cost
// more to compile than a command does.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/cli.h"

namespace CLI {
class Option;
}

namespace dlrun {

/// An option or a positional that was added; what it is asked to be, it is from the next parsing
/// on.
class CommandOption {
 public:
  explicit CommandOption(CLI::Option* option) : option_(option) {}
  CommandOption& required();
  /// What help shows for the value: "DIR", "N". completion knows DIR and FILE as paths.
  CommandOption& type_name(const char* name);
  CommandOption& non_negative();
  /// One value each time it is given, as often as wanted.
  CommandOption& repeatable();

 private:
  CLI::Option* option_;
};

/// A command in the tree. The variables are the caller's and must live until the action has run.
class Subcommand {
 public:
  Subcommand(CLI::App& root, const char* name, const char* help);

  /// names: "-f,--follow", or "RUN" for a positional.
  CommandOption option(const char* names, std::string& to, const char* help);
  CommandOption option(const char* names, std::vector<std::string>& to, const char* help);
  CommandOption option(const char* names, std::optional<std::string>& to, const char* help);
  CommandOption option(const char* names, std::optional<std::int64_t>& to, const char* help);
  CommandOption option(const char* names, std::optional<std::size_t>& to, const char* help);
  CommandOption option(const char* names, std::size_t& to, const char* help);
  void flag(const char* names, bool& to, const char* help);

  /// Called when this command was the one on the command line.
  void on_call(std::function<void()> call);

 private:
  CLI::App* app_;
};

}  // namespace dlrun
