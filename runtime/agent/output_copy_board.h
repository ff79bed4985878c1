#pragma once
// At the end of an attempt, agents copy the spec's `outputs` (files on the nodes' disks): at most
// one agent on each node. Lead uses the board to decide when each of them copies, and to see which
// copies are done. The board does no I/O; Attempt sends the messages.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "runtime/agent/intervals.h"
#include "runtime/agent/members.h"

namespace dlrun::agent {

class OutputCopyBoard {
 public:
  using Clock = std::chrono::steady_clock;

  /// Interval at which the board looks for nodes whose ranks have all ended.
  static constexpr std::chrono::milliseconds kLookEvery{200};
  /// Time after which a node's outputs are copied even if a rank other than the copying one has not
  /// ended. It begins when the programs are told to end.
  static constexpr std::chrono::milliseconds kAskedAnywayAfter = kKilledAfterTerm + kLookEvery;

  /// Adds a rank whose agent copies the outputs of its node. limit: time for the copy.
  void add(int rank, std::chrono::seconds limit) { copiers_[rank].limit = limit; }
  /// Returns true if any node has outputs.
  [[nodiscard]] bool is_used() const { return !copiers_.empty(); }
  /// Returns true until each copy is done or given up; false if no node has outputs.
  [[nodiscard]] bool is_waiting() const { return is_used() && !done_at_; }
  /// Returns the time at which the last copy was done or given up; nullopt while a copy is awaited.
  [[nodiscard]] std::optional<Clock::time_point> done_at() const { return done_at_; }

  /// Returns the ranks whose agents are to copy now. The program of each of them has ended. The
  /// programs of the other ranks of its node have ended, too, or kAskedAnywayAfter has passed since
  /// ends_since, when the programs were told to end. Gives up the copies that cannot be made any
  /// more. Call it every kLookEvery.
  [[nodiscard]] std::vector<int> take_due(const Members& members,
                                          std::optional<Clock::time_point> ends_since,
                                          Clock::time_point now);
  /// Returns the time at which take_due() is to be called next.
  [[nodiscard]] Clock::time_point next_look() const { return next_look_; }
  /// Notes that the rank has copied its outputs, or has given up. files, bytes: the numbers of
  /// files and bytes that it has copied.
  void on_collected(int rank, std::int64_t files, std::int64_t bytes, Clock::time_point now);
  /// Sets the time at which take_due() gives up all copies, because the time limit of the job is
  /// near.
  void end_by(Clock::time_point when) { end_by_ = when; }
  /// Returns the longest time that one node may need.
  [[nodiscard]] std::chrono::seconds longest_limit() const;
  /// Stops waiting: no program has started, so there are no outputs.
  void give_up(Clock::time_point now) { done_at_ = now; }

  [[nodiscard]] std::int64_t node_count() const {
    return static_cast<std::int64_t>(copiers_.size());
  }
  [[nodiscard]] std::int64_t file_count() const { return file_count_; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  /// Returns the time at which take_due() first returned a rank; the default time if it has
  /// returned none.
  [[nodiscard]] Clock::time_point began() const { return began_.value_or(Clock::time_point{}); }

 private:
  void finish_if_all_done(Clock::time_point now);

  struct Copier {
    std::chrono::seconds limit{};
    std::optional<Clock::time_point> asked_at{};
    bool is_done = false;
  };
  std::map<int, Copier> copiers_;  ///< by rank
  std::int64_t file_count_ = 0, bytes_ = 0;
  Clock::time_point next_look_{};
  std::optional<Clock::time_point> began_, done_at_, end_by_;
};

}  // namespace dlrun::agent
