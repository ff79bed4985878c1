#pragma once
// What a rank's program uses of its node: processor time and memory of its whole tree of processes.

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>

namespace dlrun::agent {

struct Usage {
  double cores = 0;  ///< processor time per time since the sample before; 1 is one busy core
  /// Resident memory of all processes; what they share counts once for each of them.
  std::uint64_t resident_bytes = 0;
};

/// Samples the tree below this process. Looking at a node's processes costs what it costs: a sample
/// is taken so seldom that it takes at most half a percent of one core.
class UsageMeter {
 public:
  using Clock = std::chrono::steady_clock;

  /// A sample when one is due, of all that descends from us but for helper's tree (-1: there is
  /// none). The first call has nothing to compare with; nor has one where there is no /proc.
  [[nodiscard]] std::optional<Usage> sample(pid_t helper, Clock::time_point now);

 private:
  std::optional<std::uint64_t> ticks_before_;
  Clock::time_point before_{};
  Clock::time_point next_{};
};

}  // namespace dlrun::agent
