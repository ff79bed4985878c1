#include "cli/spec_options.h"

#include "cli/command_line.h"

namespace dlrun {

void add_set_option(Subcommand& command, SpecOptions& options) {
  command
      .option("--set", options.set_arguments,
              "Override a key of the spec, for example resources.nodes=4; repeatable")
      .type_name("KEY=VALUE")
      .repeatable();
}

void add_spec_options(Subcommand& command, SpecOptions& options) {
  command
      .option("SPEC", options.file,
              "The spec of the experiment, a YAML file; - means standard input")
      .required();
  add_set_and_runs_options(command, options);
}

void add_set_and_runs_options(Subcommand& command, SpecOptions& options) {
  add_set_option(command, options);
  command
      .option("--runs", options.runs_dir,
              "Folder for run directories (default: $DLRUN_RUNS, else the folder of the site, else "
              "./runs)")
      .type_name("DIR");
}

}  // namespace dlrun
