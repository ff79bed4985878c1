#pragma once
// Adds the options that all commands with a spec share.

#include "cli/cli.h"
#include "launcher/submit/experiment.h"
#include "launcher/submit/user_settings.h"

namespace dlrun {

class Subcommand;

/// Adds --set to the command.
void add_set_option(Subcommand& command, SpecOptions& options);
/// Adds --set and --runs to the command.
void add_set_and_runs_options(Subcommand& command, SpecOptions& options);
/// Adds SPEC ("-" is standard input), --set and --runs to the command.
void add_spec_options(Subcommand& command, SpecOptions& options);

}  // namespace dlrun
