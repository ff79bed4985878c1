#include "runtime/agent/autopsy_board.h"

#include <algorithm>

namespace dlrun::agent {

void AutopsyBoard::add_answer(int rank, std::vector<std::string> frames) {
  if (awaited_.erase(rank) == 0 || frames.empty()) return;
  ranks_of_stack_[std::move(frames)].push_back(rank);
}

std::vector<AutopsyBoard::Group> AutopsyBoard::groups() const {
  std::vector<Group> groups;
  for (const auto& [frames, ranks] : ranks_of_stack_) {
    groups.push_back({ranks, frames});
    std::sort(groups.back().ranks.begin(), groups.back().ranks.end());
  }
  std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    return a.ranks.size() != b.ranks.size() ? a.ranks.size() < b.ranks.size() : a.ranks < b.ranks;
  });
  return groups;
}

std::vector<int> AutopsyBoard::outliers(const std::vector<Group>& groups) {
  if (groups.size() < 2) return {};
  const std::size_t smallest = groups[0].ranks.size();
  std::size_t other_ranks = 0;
  for (std::size_t i = 1; i < groups.size(); ++i) other_ranks += groups[i].ranks.size();
  const bool smallest_stands_out = smallest * 2 <= other_ranks && smallest < groups[1].ranks.size();
  return smallest_stands_out ? groups[0].ranks : std::vector<int>();
}

}  // namespace dlrun::agent
