#pragma once
// The phases of an attempt, each with the data that exist only during this phase. Private to
// Attempt.

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/agent/attempt_judge.h"
#include "runtime/agent/autopsy_board.h"
#include "runtime/agent/hang_watch.h"
#include "runtime/agent/node_fitness.h"

namespace dlrun::agent::phase {

using Clock = std::chrono::steady_clock;

/// Ranks connect and say hello. The first rank of each node copies data if the spec has `stage`.
struct Joining {
  int joined_count = 0;  ///< number of ranks whose hello is accepted
  NodeFitness fitness{};
  std::set<int> staging_ranks{};        ///< ranks that still copy the data of their nodes
  std::int64_t staging_node_count = 0;  ///< number of nodes that copy data, or have copied them
  std::int64_t staged_file_count = 0, staged_bytes = 0;
  bool is_staging_recorded = false;
};

/// The latest report of a rank that its program is suspended (SIGSTOP).
struct SuspendedProgram {
  int rank = -1;                 ///< -1: no rank has reported a suspended program
  std::chrono::seconds time{};   ///< how long the program has been suspended
  Clock::time_point heard_at{};  ///< when the report came
};
/// All ranks have joined. They check collectives if health.preflight contains nccl, rccl or gloo,
/// and run their programs.
struct Running {
  HangWatch hang;
  /// When the hang was first seen. The verdict waits for late heartbeats.
  std::optional<Clock::time_point> hang_since{};
  std::optional<Clock::time_point> hang_looked_at{};  ///< when the hang was last examined
  SuspendedProgram suspended{};
  NodeFitness fitness{};  ///< results of the check of collectives
  /// Ranks whose check has opened its device: a GPU or the CPU. Each check then waits for the other
  /// ranks.
  std::set<int> ranks_with_open_device{};
  int checked_count = 0;                     ///< number of ranks whose check has passed
  std::vector<std::string> address_pages{};  ///< the address table, made on the first request
  /// When the attempt ends at the latest. Set only if the time limit is near and a requeued job, or
  /// the next job of the chain, can continue the run.
  std::optional<Clock::time_point> must_end_by{};
  std::optional<Clock::time_point> rehearsal_ends_at{};  ///< when the rehearsal ends
  /// When all ranks had ended and their outputs were copied.
  std::optional<Clock::time_point> all_ended_since{};
};

/// The agents save the stacks of a hung attempt. Its end is decided already.
struct Examining {
  AutopsyBoard board;
  Clock::time_point until{};
};

/// The ranks have been told to end.
struct Ending {
  Clock::time_point since{};
  int stop_stage = 0;  ///< 0: the step was not told to end; 1: it was asked to stop; 2: killed
  /// When the first signal reached lead in this phase.
  std::optional<Clock::time_point> signalled_at{};
  /// When the failure is announced at the latest. Set only while a later report may still change
  /// which rank is to blame, or say how its agent died.
  std::optional<Clock::time_point> announce_at{};
  /// Failures that are neither to blame for the end nor caused by a signal of lead. One of them may
  /// have been blamed first. Bounded.
  std::vector<FailedRank> other_failures{};
};

struct Over {};

}  // namespace dlrun::agent::phase
