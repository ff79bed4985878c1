#include "runtime/agent/remembered_bad_nodes.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <set>
#include <thread>

#include "common/bad_nodes.h"
#include "common/hostlist.h"

namespace dlrun::agent {

std::vector<std::string> bad_nodes_of(const AttemptEnd& end) {
  std::set<std::string> nodes(end.bad_nodes.begin(), end.bad_nodes.end());
  if (end.cause == Cause::kHang) nodes.insert(end.suspects.begin(), end.suspects.end());
  return {nodes.begin(), nodes.end()};
}

std::string remember_as_bad(const KnownBadOptions& options, const JobIdentity& identity,
                            const std::string& run, const std::vector<std::string>& nodes,
                            const std::string& reason) {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  std::vector<BadNode> bad;
  for (const auto& node : nodes)
    bad.push_back({node, identity.cluster, reason, run, identity.job, now, now + options.time});
  const auto done = std::make_shared<std::promise<Result<>>>();
  auto written = done->get_future();
  std::thread([done, file = options.file, bad] {
    done->set_value(remember_bad_nodes(file, bad));
  }).detach();
  const auto list = compress_hostlist(nodes);
  if (written.wait_for(kRememberTimeLimit) != std::future_status::ready)
    return fmt::format(
        "{} could not be written within {} s; perhaps {} is not recorded as bad (health.known_bad)",
        options.file.string(), kRememberTimeLimit.count(), list);
  if (auto result = written.get(); !result)
    return fmt::format("{} is not recorded as bad (health.known_bad): {}", list,
                       result.error().message);
  return fmt::format("{} {} remembered as bad; later submissions avoid {} (`dlrun nodes`)", list,
                     nodes.size() == 1 ? "is" : "are", nodes.size() == 1 ? "it" : "them");
}

}  // namespace dlrun::agent
