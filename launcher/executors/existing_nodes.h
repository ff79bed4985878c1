#pragma once
// Finds out which nodes a cluster has.

#include <span>
#include <string>
#include <vector>

#include "common/env.h"
#include "common/result.h"

namespace dlrun {

/// Returns those of `nodes` that the cluster has, according to sinfo. Callers exclude only these
/// nodes, because sbatch refuses to exclude a node that does not exist. cluster: for sinfo's option
/// --clusters; empty: the default cluster. Fails with kNotFound if sinfo is not installed, with
/// kTimeout if it does not answer in time, and with kUnavailable if it fails.
[[nodiscard]] Result<std::vector<std::string>> nodes_that_exist(const Env& env,
                                                                const std::string& cluster,
                                                                std::span<const std::string> nodes);

}  // namespace dlrun
