#pragma once
// The ranks of an attempt as lead knows them. Plain data; Attempt keeps it up to date.

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/agent/messages.h"

namespace dlrun::agent {

/// One rank that has said hello, or that failed before its hello.
struct Member {
  to_lead::Hello hello{};
  bool is_connected = false;
  std::optional<RankEnd> end{};
  std::chrono::steady_clock::time_point heard_at{};  ///< when its latest message arrived
};

/// The end of a task, as the step reported it.
struct TaskEnd {
  std::string host;
  RankEnd end;
};

struct Members {
  int world_size = 0;  ///< number of ranks of the world; 0 until it is known
  std::map<int, Member> by_rank{};
  int ended_count = 0;  ///< number of ranks that have ended
  int live_count = 0;   ///< number of ranks that are connected and have not ended
  std::map<int, TaskEnd> task_ends{};
  std::set<int> lost_ranks{};  ///< ranks whose agents disappeared without an exit record

  [[nodiscard]] Member* find(int rank);
  /// Returns the host of a rank; empty if it is not known.
  [[nodiscard]] std::string host_of(int rank) const;
  [[nodiscard]] bool all_ended() const { return world_size > 0 && ended_count >= world_size; }
  /// Returns the ranks that are connected and have not ended.
  [[nodiscard]] std::set<int> live_ranks() const;
  [[nodiscard]] bool has_live() const { return live_count > 0; }
  // The next three functions keep `ended_count` and `live_count` up to date. Each end and each lost
  // connection asks for these counts; counting all ranks each time would take quadratic time.
  void join(int rank, const to_lead::Hello& hello, std::chrono::steady_clock::time_point now);
  void disconnect(Member& member);
  void set_end(Member& member, RankEnd end);
};

struct Silence {
  std::vector<int> ranks;                         ///< ranks whose agents have fallen silent
  std::vector<std::string> nodes;                 ///< nodes of which every agent has fallen silent
  std::chrono::steady_clock::time_point since{};  ///< when the latest message of these ranks came
  /// The heartbeat of a rank is late, but the rank does not count as silent yet.
  bool is_any_late = false;
};

/// Finds the connected ranks that have not ended but are silent. Returns none if lead hears no rank
/// at all and the ranks are on several nodes, because then lead itself may be cut off from the
/// network.
[[nodiscard]] Silence find_silence(const Members& members,
                                   std::chrono::steady_clock::time_point now);

}  // namespace dlrun::agent
