#pragma once
// Finds components of a job that wait for each other, so that none of them could start.

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace dlrun {

/// Returns the names of a cycle: each component waits for the one after it in the result. The first
/// name stands again at the end. Returns an empty list if there is no cycle. Component: has `name`,
/// and `after`, the names of the components that it waits for. Ignores names that no component has.
template <typename Component>
std::vector<std::string> find_waiting_cycle(const std::vector<Component>& components) {
  // 0: not visited, 1: on the current path, 2: visited and in no cycle.
  std::vector<int> state(components.size(), 0);
  std::vector<std::size_t> path;
  std::vector<std::string> cycle;
  const auto visit = [&](const auto& self, std::size_t at) -> bool {
    if (state[at] == 2) return false;
    path.push_back(at);
    if (state[at] == 1) return true;
    state[at] = 1;
    for (const std::string& name : components[at].after) {
      const auto next = std::find_if(components.begin(), components.end(),
                                     [&](const Component& one) { return one.name == name; });
      if (next != components.end() &&
          self(self, static_cast<std::size_t>(next - components.begin())))
        return true;
    }
    state[at] = 2;
    path.pop_back();
    return false;
  };
  for (std::size_t start = 0; start < components.size(); ++start) {
    if (!visit(visit, start)) continue;
    const auto first = std::find(path.begin(), path.end(), path.back());
    for (auto at = first; at != path.end(); ++at) cycle.push_back(components[*at].name);
    return cycle;
  }
  return cycle;
}

}  // namespace dlrun
