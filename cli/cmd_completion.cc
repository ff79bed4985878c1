// dlrun completion: the script that a shell completes with.

#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>

#include "cli/cli.h"
#include "cli/completion.h"

namespace dlrun {

void add_completion(CLI::App& root, Action& action) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = root.add_subcommand("completion", "Print a completion script");
  command->add_option("SHELL", *shell, "bash, zsh or fish")->required();
  command->callback([shell, &root, &action] {
    action = [shell, &root](Cli&) -> Result<int> {
      const auto script = completion_script(root, *shell);
      if (!script) return tl::unexpected(script.error());
      fmt::print("{}", *script);
      return kExitOk;
    };
  });
}

}  // namespace dlrun
