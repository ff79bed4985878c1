#pragma once
// Shows what `rm` and `prune` would delete, asks, deletes, and reports.

#include "cli/cli.h"
#include "launcher/cleanup/cleanup.h"

namespace dlrun {

class Subcommand;

struct CleanupOptions {
  bool is_yes = false;  ///< delete without a question
  bool is_json = false;
  bool is_dry_run = false;
};

/// Adds --yes, --dry-run and --json to the command.
void add_cleanup_options(Subcommand& command, CleanupOptions& options);

/// Prints the plan. Unless it is a dry run, asks on a terminal and deletes the runs. Returns the
/// exit code. Fails with kUsage without a terminal and without `is_yes`, and with kInterrupted if
/// the answer is no; nothing is deleted then.
[[nodiscard]] Result<int> ask_and_clean_up(const Cli& cli, RunInspector& inspector,
                                           const CleanupPlan& plan, const CleanupOptions& options);

}  // namespace dlrun
