#pragma once
// `dlrun bench scaling`: runs one experiment at several sizes and compares the rates.

#include <optional>
#include <string>

#include "cli/cli.h"
#include "cli/spec_options.h"

namespace dlrun {

struct ScalingOptions {
  SpecOptions spec;
  std::optional<std::string> nodes;  ///< "1,2,4": numbers of nodes; Slurm starts one job for each
  std::optional<std::string> local;  ///< "1,2": numbers of ranks, all on this machine
  std::optional<std::string> svg;
  bool json = false;
};

/// Runs the experiment at each size in turn, each time as a separate run. Prints the rates
/// in samples per second, the efficiency and the rates that a model predicts for more ranks. If
/// Slurm would refuse a size, submits nothing and returns the exit code of `submit --test-only`.
/// Leaves out a size that fails, with a warning. Returns kExitRunFailed if all sizes fail, and
/// kExitInterrupted after a signal.
[[nodiscard]] Result<int> bench_scaling(Cli& cli, const ScalingOptions& options);

}  // namespace dlrun
