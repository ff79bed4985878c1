#pragma once
// Measures the processor time and memory that all processes of a rank's program use.

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>

namespace dlrun::agent {

struct ProcessUsage {
  double cores = 0;  ///< average number of busy cores since the previous sample
  /// Resident memory of all processes. Shared pages count once for each process.
  std::uint64_t resident_bytes = 0;
};

/// Samples the process tree below this process every 2.5 s. If a sample takes long, the pause
/// before the next one grows, up to 30 s, so that sampling uses at most half a percent of one core.
class ProcessUsageMeter {
 public:
  using Clock = std::chrono::steady_clock;

  /// Takes a sample if the pause has passed. excluded: a process whose tree is not counted; -1:
  /// none. Returns nullopt during the pause, if there is no process, without /proc, and for the
  /// first sample, because there is no earlier one to compare it with.
  [[nodiscard]] std::optional<ProcessUsage> sample(pid_t excluded, Clock::time_point now);

 private:
  std::optional<std::uint64_t> previous_ticks_;  ///< nullopt before the first sample
  Clock::time_point previous_sample_{}, next_sample_{};
};

}  // namespace dlrun::agent
