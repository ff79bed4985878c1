#include "runtime/agent/output_copy_board.h"

#include <algorithm>
#include <string>

namespace dlrun::agent {

std::vector<int> OutputCopyBoard::take_due(const Members& members,
                                           std::optional<Clock::time_point> ends_since,
                                           Clock::time_point now) {
  if (!is_waiting() || now < next_look_) return {};
  next_look_ = now + kLookEvery;
  // Number of connected ranks whose programs have not ended, by host.
  std::map<std::string, int> left;
  for (const auto& [rank, member] : members.by_rank)
    left[member.hello.host] += member.is_connected && !member.end ? 1 : 0;
  const bool is_over = end_by_ && now >= *end_by_;
  const bool asks_anyway = ends_since && now >= *ends_since + kAskedAnywayAfter;
  std::vector<int> due;
  for (auto& [rank, copier] : copiers_) {
    const auto found = members.by_rank.find(rank);
    if (copier.is_done || found == members.by_rank.end()) continue;
    const auto& member = found->second;
    const bool is_late = copier.asked_at && now >= *copier.asked_at + copier.limit + kOutputsMargin;
    // A silent agent may come back, but the step must end.
    const bool is_silent = now >= member.heard_at + kLease && (copier.asked_at || asks_anyway);
    // Lead kills the step now, because the program of this rank has not ended in time.
    const bool is_stuck = !member.end && ends_since && now >= *ends_since + kStepKilledAfter;
    if (!member.is_connected || is_over || is_late || is_silent || is_stuck) {
      copier.is_done = true;
    } else if (!copier.asked_at && member.end && (left[member.hello.host] == 0 || asks_anyway)) {
      copier.asked_at = now;
      if (!began_) began_ = now;
      due.push_back(rank);
    }
  }
  finish_if_all_done(now);
  return due;
}

void OutputCopyBoard::on_collected(int rank, std::int64_t files, std::int64_t bytes,
                                   Clock::time_point now) {
  const auto found = copiers_.find(rank);
  if (found == copiers_.end() || found->second.is_done) return;
  found->second.is_done = true;
  file_count_ += files;
  bytes_ += bytes;
  finish_if_all_done(now);
}

std::chrono::seconds OutputCopyBoard::longest_limit() const {
  std::chrono::seconds longest{};
  for (const auto& [rank, copier] : copiers_) longest = std::max(longest, copier.limit);
  return longest;
}

void OutputCopyBoard::finish_if_all_done(Clock::time_point now) {
  const bool all_are_done = std::all_of(copiers_.begin(), copiers_.end(),
                                        [](const auto& entry) { return entry.second.is_done; });
  if (all_are_done && !done_at_) done_at_ = now;
}

}  // namespace dlrun::agent
