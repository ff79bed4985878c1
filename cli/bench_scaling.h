#pragma once
// dlrun bench scaling: one experiment at several sizes.

#include <optional>
#include <string>

#include "cli/cli.h"
#include "cli/prepare.h"

namespace dlrun {

struct ScalingOptions {
  SpecOptions spec;
  std::optional<std::string> nodes;  ///< "1,2,4": each through Slurm
  std::optional<std::string> local;  ///< "1,2": so many ranks on this machine instead
  std::optional<std::string> svg;
  bool json = false;
};

/// Runs the experiment at each size, one after the other, each as a run of its own, and tells
/// rates, efficiency and what a model continues them to. A size that fails is left out, with a
/// warning. kExitRunFailed where all of them are.
[[nodiscard]] Result<int> bench_scaling(Cli& cli, const ScalingOptions& options);

}  // namespace dlrun
