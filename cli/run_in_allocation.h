#pragma once
// Starts a run in an allocation that the user already has, and prints or follows the run. The
// commands are `dlrun run --here` and `dlrun submit --in`.

#include "cli/cli.h"
#include "cli/submission_output.h"
#include "launcher/submit/allocation_run.h"

namespace dlrun {

struct AllocationRunRequest {
  SpecOptions spec;
  AllocationRunChoices choices;
  /// With `watch`, run_in_allocation() follows the run to its end.
  OutputOptions output;
  /// true: an interruption cancels the followed run. false: an interruption only ends the watching.
  bool is_foreground = false;
};

/// Starts the run, and prints its id and files or follows it to its end. With choices.is_dry_run,
/// starts nothing and prints the script. Returns the exit code.
[[nodiscard]] Result<int> run_in_allocation(Cli& cli, const AllocationRunRequest& request);

}  // namespace dlrun
