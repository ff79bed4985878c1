#pragma once
// Lead's side of a hang's autopsy: where each rank stands, the ranks grouped by their stacks. No
// I/O, no clock.

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace dlrun::agent {

class AutopsyBoard {
 public:
  /// How long lead waits for the agents: a debugger takes seconds to read a large program's
  /// symbols.
  static constexpr std::chrono::seconds kLimit{12};

  /// awaited: the ranks whose agents were asked.
  explicit AutopsyBoard(std::set<int> awaited) : awaited_(std::move(awaited)) {}

  /// A rank's answer: its main thread's frames, the innermost first; empty where they could not be
  /// had.
  void note(int rank, std::vector<std::string> frames);
  /// The rank is gone, and will not answer.
  void drop(int rank) { awaited_.erase(rank); }
  [[nodiscard]] bool is_complete() const { return awaited_.empty(); }

  /// Ranks that stand at the same place.
  struct Group {
    std::vector<int> ranks;  ///< ascending
    std::vector<std::string> frames;
  };
  /// The groups, the smallest first; of equal size that of the lowest rank first. A rank without
  /// frames is in none.
  [[nodiscard]] std::vector<Group> groups() const;
  /// The ranks of the smallest group where it is smaller than the rest of the ranks together by
  /// half or more: those that the others wait for, most likely. Empty where no group stands out.
  [[nodiscard]] static std::vector<int> odd_ones(const std::vector<Group>& groups);

 private:
  std::set<int> awaited_;
  std::map<std::vector<std::string>, std::vector<int>> ranks_of_stack_;
};

/// "3, 6-9, 12", cut after a line's length.
[[nodiscard]] std::string ranges(const std::vector<int>& sorted);

}  // namespace dlrun::agent
