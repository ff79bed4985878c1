#pragma once
// The part that `rm` and `prune` share: shows the planned deletions, asks the user, and deletes.

#include "cli/cli.h"
#include "launcher/cleanup/cleanup.h"

namespace dlrun {

class Subcommand;

struct CleanupOptions {
  bool skips_question = false;
  bool is_json = false;
  bool is_dry_run = false;
};

/// Adds --yes, --dry-run and --json to the command.
void add_cleanup_options(Subcommand& command, CleanupOptions& options);

/// Prints the plan, asks on the terminal, and then deletes the runs. With `skips_question`, neither
/// prints the plan nor asks. With `is_dry_run`, only prints the plan. With `is_json`, prints JSON
/// at the end instead of the plan, and still asks. An empty plan needs no question. Returns the
/// exit code. Fails with kUsage if there is no terminal to ask on. If the answer is no, prints a
/// note, and fails with kInterrupted and without a message. Deletes nothing if it fails.
[[nodiscard]] Result<int> ask_and_clean_up(const Cli& cli, RunInspector& inspector,
                                           const CleanupPlan& plan, const CleanupOptions& options);

}  // namespace dlrun
