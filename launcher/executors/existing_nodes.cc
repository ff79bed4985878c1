#include "launcher/executors/existing_nodes.h"

#include <set>

#include "common/hostlist.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "launcher/executors/scrub.h"

namespace dlrun {

Result<std::vector<std::string>> nodes_that_exist(const Env& env, const std::string& cluster,
                                                  std::span<const std::string> nodes) {
  Command command;
  command.argv = {"sinfo", "--noheader", "--Node", "--format=%N",
                  "--nodes=" + compress_hostlist(nodes)};
  if (!cluster.empty()) command.argv.push_back("--clusters=" + cluster);
  command.env = scrubbed_for_slurm(env, munge_is_available());
  DLRUN_TRY_ASSIGN(const auto finished, run_command(command));
  if (finished.exit_code != 0)
    return fail(Errc::kUnavailable, "sinfo ended with code {}: {}", finished.exit_code,
                printable(trim(finished.err)));
  std::set<std::string> listed;  // a set, because sinfo lists a node once per partition
  for (const std::string_view line : split(finished.out, '\n')) listed.emplace(trim(line));
  std::vector<std::string> found;
  for (const std::string& node : nodes) {
    if (listed.contains(node)) found.push_back(node);
  }
  return found;
}

}  // namespace dlrun
