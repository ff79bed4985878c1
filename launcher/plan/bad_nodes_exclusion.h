#pragma once
// Decides at submission which remembered bad nodes (health.known_bad) a job must not get, and
// builds the value of sbatch's --exclude.

#include <string>
#include <string_view>
#include <vector>

#include "common/bad_nodes.h"
#include "common/result.h"

namespace dlrun {

/// The bad nodes to exclude, and the bad nodes that the job may still get.
struct BadNodesExclusion {
  std::vector<BadNode> excluded;
  std::vector<BadNode> wanted;  ///< bad nodes in --nodelist; they are not excluded
  /// The value of --exclude: the nodes of the script's own --exclude, and `excluded`. Empty if
  /// `excluded` is empty.
  std::string value;
};

/// Decides which of the remembered nodes to exclude. `script`: the job's script, whose #SBATCH
/// lines may have --exclude and --nodelist. The result's `value` includes the nodes of the script's
/// --exclude, because --exclude on sbatch's command line replaces the option in the script.
/// `cluster`: the job's cluster; empty: unknown. Ignores a node that was remembered on another
/// cluster, unless one of the two clusters is unknown. Fails with kInvalid if a node list of the
/// script cannot be parsed, or is the path of a file.
[[nodiscard]] Result<BadNodesExclusion> exclude_bad_nodes(const std::vector<BadNode>& remembered,
                                                          std::string_view cluster,
                                                          std::string_view script);

}  // namespace dlrun
