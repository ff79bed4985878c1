// dlrun completion: the script that a shell completes with.

#include <cstdio>
#include <memory>

#include "cli/command_line.h"
#include "cli/completion.h"

namespace dlrun {

void add_completion(CLI::App& root, Action& action) {
  auto shell = std::make_shared<std::string>();
  Subcommand command(root, "completion", "Print a completion script");
  command.option("SHELL", *shell, "bash, zsh or fish").required();
  command.on_call([shell, &root, &action] {
    action = [shell, &root](Cli&) -> Result<int> {
      const auto script = completion_script(root, *shell);
      if (!script) return tl::unexpected(script.error());
      fmt::print("{}", *script);
      return kExitOk;
    };
  });
}

}  // namespace dlrun
