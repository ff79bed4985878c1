#pragma once
// health.known_bad at submission: which remembered nodes a job must not get, as sbatch's --exclude.

#include <string>
#include <string_view>
#include <vector>

#include "common/bad_nodes.h"
#include "common/result.h"

namespace dlrun {

struct BadNodesExclusion {
  std::vector<BadNode> excluded;
  std::vector<BadNode> kept;  ///< bad, but named by --nodelist: the user wants them
  std::string value;  ///< for --exclude: the script's own nodes and the excluded ones; empty where
                      ///< none is excluded
};

/// Decides from what is remembered. script: its #SBATCH lines say --exclude and --nodelist, which
/// sbatch's command line would replace and not extend. cluster: the job's; a node that was
/// remembered on another cluster is passed over, one of which the cluster is unknown is not. Fails
/// with kInvalid where the script's own lists cannot be read.
[[nodiscard]] Result<BadNodesExclusion> exclude_bad_nodes(const std::vector<BadNode>& remembered,
                                                          std::string_view cluster,
                                                          std::string_view script);

}  // namespace dlrun
