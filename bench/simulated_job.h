#pragma once
// The simulated ranks of a large job, for bench/leader.

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "common/result.h"
#include "runtime/agent/address.h"
#include "runtime/agent/protocol.h"

namespace dlrun::agent {

struct SimulationOptions {
  int ranks = 0;
  int ranks_per_node = 8;  ///< of each simulated node; the last node may have fewer
  /// Pause before the measurement of lead's processor time. The pause begins when all ranks know
  /// rank 0's address.
  std::chrono::seconds settle{4};
  std::chrono::seconds watch{30};  ///< time for which lead's processor time is measured
  /// File to which bench_simulated_ranks writes the measurements. simulate_job() does not use it.
  std::filesystem::path results{};
};

/// The address of the simulated job's lead, and the facts that each rank needs to prove that it
/// belongs to the job.
struct LeadAccess {
  Endpoint endpoint;
  Key secret{};
  std::string job, step;  ///< ids, which each rank repeats to lead
  int attempt = 0;
  pid_t pid = 0;  ///< lead's process, whose processor time and memory are measured
};

/// Connects all ranks to lead, lets them send heartbeats, lets one of them disappear, and returns
/// the measurements. Fails if
/// - a rank does not receive Start in time, or receives a wrong address;
/// - a rank loses its connection to lead, or is told to end, before the one rank disappears;
/// - a rank is not told in time that the one rank has disappeared;
/// - /proc does not show the processor time or the memory of lead.
[[nodiscard]] Result<nlohmann::ordered_json> simulate_job(const SimulationOptions& options,
                                                          const LeadAccess& lead);

}  // namespace dlrun::agent
