#pragma once
// Lead's side of the autopsy of a hang: collects the stack of each rank and groups the ranks by
// equal stacks. No I/O, no clock.

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace dlrun::agent {

class AutopsyBoard {
 public:
  /// Time that lead waits for the agents. A debugger needs seconds to read the symbols of a
  /// large program.
  static constexpr std::chrono::seconds kLimit{12};

  /// awaited: the ranks whose agents were asked.
  explicit AutopsyBoard(std::set<int> awaited) : awaited_(std::move(awaited)) {}

  /// Adds the answer of a rank. frames: the stack of its main thread, innermost frame first; empty
  /// if it could not be read.
  void add_answer(int rank, std::vector<std::string> frames);
  /// Stops waiting for a rank that is gone.
  void drop(int rank) { awaited_.erase(rank); }
  [[nodiscard]] bool is_complete() const { return awaited_.empty(); }

  /// Ranks that have the same stack.
  struct Group {
    std::vector<int> ranks;  ///< ascending
    std::vector<std::string> frames;
  };
  /// Returns the groups, the smallest first; among groups of equal size the group with the lowest
  /// rank first. A rank without frames is in no group.
  [[nodiscard]] std::vector<Group> groups() const;
  /// Returns the ranks of the smallest group if it has at most half as many ranks as all other
  /// groups together. The other ranks most likely wait for these ranks. Returns none if no group
  /// stands out, or if the two smallest groups have the same size.
  [[nodiscard]] static std::vector<int> outliers(const std::vector<Group>& groups);

 private:
  std::set<int> awaited_;
  std::map<std::vector<std::string>, std::vector<int>> ranks_of_stack_;
};

}  // namespace dlrun::agent
