#pragma once
// Which nodes a cluster has.

#include <span>
#include <string>
#include <vector>

#include "common/env.h"
#include "common/result.h"

namespace dlrun {

/// Returns those of nodes that the cluster has, as sinfo says. cluster: -M; empty for the default
/// one. sbatch refuses a job that excludes a node which the cluster does not have (any more). Fails
/// with kNotFound without sinfo, and with kUnavailable where it does not answer.
[[nodiscard]] Result<std::vector<std::string>> nodes_that_exist(const Env& env,
                                                                const std::string& cluster,
                                                                std::span<const std::string> nodes);

}  // namespace dlrun
