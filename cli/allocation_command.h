#pragma once
// Runs a spec in an allocation that the user already has, for `dlrun run --here` and `dlrun submit
// --in`.

#include <cstddef>
#include <optional>
#include <string>

#include "cli/cli.h"
#include "launcher/submit/experiment.h"

namespace dlrun {

struct AllocationRun {
  SpecOptions spec;
  std::string job;                   ///< the id of the job whose allocation the run uses
  std::optional<std::size_t> point;  ///< the point of a sweep to run
  bool json = false, dry_run = false;
  bool watch = false;  ///< follows the run to its end
  /// With watch: an interruption cancels the run. Otherwise it only ends the following.
  bool is_foreground = false;
};

/// Starts the run and prints it, or follows it to its end. Returns the exit code.
[[nodiscard]] Result<int> run_in_allocation(Cli& cli, const AllocationRun& options);

}  // namespace dlrun
