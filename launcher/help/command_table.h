#pragma once
// The commands of dlrun with their options and positionals, as data. The command line builds this
// table from its parser, so that the generated pages match the options that dlrun accepts.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace dlrun {

struct OptionHelp {
  std::vector<std::string> names;  ///< "-f", "--follow"
  std::string help;                ///< without a full stop at the end
  std::string value_name;          ///< in help, such as "DIR"; empty: the option is a flag
};

struct PositionalHelp {
  std::string name;  ///< "RUN", "KEY|SPEC"
  bool is_required = false;
  bool is_repeatable = false;
};

struct CommandHelp {
  std::string name, help;  ///< help: without a full stop at the end
  std::vector<OptionHelp> options;
  std::vector<PositionalHelp> positionals;

  /// Returns true if the name of a positional contains `word`.
  [[nodiscard]] bool has_positional(std::string_view word) const {
    return std::any_of(positionals.begin(), positionals.end(), [word](const auto& positional) {
      return positional.name.find(word) != std::string::npos;
    });
  }
};

struct CommandTable {
  std::vector<OptionHelp> options;  ///< the options of dlrun itself
  std::vector<CommandHelp> commands;
};

}  // namespace dlrun
