// `dlrun man`: prints the manual page, which is also docs/dlrun.1.

#include "cli/command_line.h"
#include "cli/terminal/print.h"
#include "launcher/help/man_page.h"

namespace dlrun {

void add_man(CLI::App& root, Action& action) {
  Subcommand command(root, "man", "Print the manual page: dlrun man | man -l -");
  command.on_parse([&root, &action] {
    action = [&root](Cli&) -> Result<int> {
      print_document(man_page(command_table(root)));
      return kExitOk;
    };
  });
}

}  // namespace dlrun
