// dlrun schema: the key table as JSON Schema, for editors.

#include <cstdio>

#include <CLI/CLI.hpp>

#include "cli/cli.h"
#include "launcher/spec/schema.h"

namespace dlrun {

void add_schema(CLI::App& root, Action& action) {
  CLI::App* command =
      root.add_subcommand("schema", "Print the JSON Schema of a spec, with which editors complete and check it");
  command->callback([&action] {
    action = [](Cli&) -> Result<int> {
      fmt::print("{}", spec_schema());
      return kExitOk;
    };
  });
}

}  // namespace dlrun
