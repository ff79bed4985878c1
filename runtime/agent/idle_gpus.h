#pragma once
// Finds idle GPUs. Heartbeats report how busy each GPU is. A GPU is idle if no heartbeat has
// reported it busy for the time health.idle_gpu_after. A GPU about which no heartbeat has reported
// anything for two minutes does not count as idle. No I/O, no clock.

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/agent/messages.h"

namespace dlrun::agent {

class IdleGpus {
 public:
  using Clock = std::chrono::steady_clock;

  /// limit: time without work after which a GPU counts as idle; nullopt disables the check.
  explicit IdleGpus(std::optional<std::chrono::seconds> limit) : limit_(limit) {}

  /// Notes that the programs start now.
  void on_start(Clock::time_point now) { began_ = now; }
  /// Adds a rank's heartbeat. Ignores GPUs whose utilisation is unknown.
  void add_beat(int rank, const std::string& host, const to_lead::Beat& beat,
                Clock::time_point now);
  /// Excludes `time` from the idle times: this process was suspended for so long, and received no
  /// heartbeat.
  void on_lead_suspended(Clock::duration time);

  /// Returns a sentence about the nodes whose GPUs have become idle since the last call, with the
  /// number of their idle GPUs. Returns nullopt if there are none.
  [[nodiscard]] std::optional<std::string> take_message(Clock::time_point now);

 private:
  struct Gpu {
    Clock::time_point busy_at{};   ///< when it was last busy; if never: when the programs started
    Clock::time_point heard_at{};  ///< when its utilisation was last reported
    bool has_worked = false;
    bool is_announced = false;  ///< take_message() has told the user that it is idle
  };

  std::optional<std::chrono::seconds> limit_;
  std::optional<Clock::time_point> began_;
  /// GPUs by node. The key of a GPU is the rank that reports it, and its index in that rank's list.
  std::map<std::string, std::map<std::pair<int, std::size_t>, Gpu>> nodes_;
};

}  // namespace dlrun::agent
