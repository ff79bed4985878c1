// `dlrun completion`: prints the completion script for a shell.

#include "launcher/help/completion.h"

#include <memory>

#include "cli/command_line.h"
#include "cli/spec_options.h"
#include "cli/terminal/print.h"
#include "common/text.h"
#include "launcher/remote/host_file.h"

namespace dlrun {

void add_completion(CLI::App& root, Action& action) {
  auto shell = std::make_shared<std::string>(), list = std::make_shared<std::string>();
  Subcommand command(root, "completion", "Print a completion script for a shell");
  command.option("SHELL", *shell, "bash, zsh or fish");
  command
      .option("--list", *list,
              "List of names to print for a completion script: hosts, sites or presets")
      .type_name("WHAT");
  command.on_parse([shell, list, &root, &action] {
    action = [shell, list, &root](Cli& cli) -> Result<int> {
      if (*list == "hosts") {
        for (const std::string& name : host_names(config_folders(cli))) print(cli, "{}\n", name);
        return kExitOk;
      }
      if (!list->empty()) {
        if (*list != "sites" && *list != "presets")
          return fail(Errc::kUsage, "--list {}: expected hosts, sites or presets",
                      printable(*list));
        for (const std::string& name : site_or_preset_names(*list, config_folders(cli)))
          print(cli, "{}\n", name);
        return kExitOk;
      }
      if (shell->empty()) return fail(Errc::kUsage, "SHELL is required: bash, zsh or fish");
      DLRUN_TRY_ASSIGN(const auto script, completion_script(command_table(root), *shell));
      print_document(script);
      return kExitOk;
    };
  });
}

}  // namespace dlrun
