// `dlrun schema`: prints the JSON Schema of a spec, for editors.

#include "launcher/spec/schema.h"

#include "cli/command_line.h"
#include "cli/terminal/print.h"

namespace dlrun {

void add_schema(CLI::App& root, Action& action) {
  Subcommand command(root, "schema",
                     "Print the JSON Schema of a spec; editors use it to complete and check specs");
  command.on_parse([&action] {
    action = [](Cli&) -> Result<int> {
      print_document(spec_schema());
      return kExitOk;
    };
  });
}

}  // namespace dlrun
