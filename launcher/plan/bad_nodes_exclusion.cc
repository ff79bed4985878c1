#include "launcher/plan/bad_nodes_exclusion.h"

#include <algorithm>
#include <set>

#include "common/hostlist.h"
#include "launcher/plan/sbatch_lines.h"

namespace dlrun {
namespace {

/// Returns the nodes in the value of an option of the script. Fails with kInvalid if the value
/// cannot be parsed, or if it is the path of a file with nodes ("--exclude=./bad").
Result<std::vector<std::string>> nodes_of_option(std::string_view script,
                                                 std::string_view long_name,
                                                 std::string_view short_name) {
  const auto value = sbatch_value(script, long_name, short_name);
  if (!value || value->empty()) return std::vector<std::string>();
  auto nodes = expand_hostlist(*value);
  if (!nodes) return within(long_name, nodes.error());
  return nodes;
}

}  // namespace

Result<BadNodesExclusion> exclude_bad_nodes(const std::vector<BadNode>& remembered,
                                            std::string_view cluster, std::string_view script) {
  DLRUN_TRY_ASSIGN(const auto excluded_by_script, nodes_of_option(script, "--exclude", "-x"));
  DLRUN_TRY_ASSIGN(const auto wanted, nodes_of_option(script, "--nodelist", "-w"));
  BadNodesExclusion result;
  for (const BadNode& bad : remembered) {
    if (!bad.cluster.empty() && !cluster.empty() && bad.cluster != cluster) continue;
    const bool is_wanted = std::find(wanted.begin(), wanted.end(), bad.node) != wanted.end();
    (is_wanted ? result.wanted : result.excluded).push_back(bad);
  }
  if (result.excluded.empty()) return result;
  std::set<std::string> all(excluded_by_script.begin(), excluded_by_script.end());
  for (const BadNode& bad : result.excluded) all.insert(bad.node);
  result.value = compress_hostlist(std::vector<std::string>(all.begin(), all.end()));
  return result;
}

}  // namespace dlrun
