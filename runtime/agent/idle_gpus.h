#pragma once
// health.idle_gpu_after: GPUs that are paid for and not used. Nodes tell how busy their GPUs are; a
// GPU that no sample has seen at work for long enough is idle. No I/O, no clock of its own.

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace dlrun::agent {

class IdleGpus {
 public:
  using Clock = std::chrono::steady_clock;

  /// limit: after how long without work a GPU counts as idle; nothing: nobody asks.
  explicit IdleGpus(std::optional<std::chrono::seconds> limit) : limit_(limit) {}

  /// The programs start now.
  void on_start(Clock::time_point now) { began_ = now; }
  /// A heartbeat of a rank. Reads its `gpus` or `node_gpus` (protocol.h); GPUs whose use nobody can
  /// tell do not count.
  void note(int rank, const std::string& host, const nlohmann::ordered_json& beat,
            Clock::time_point now);
  /// This process was stopped for so long, and heard nobody.
  void on_asleep(Clock::duration time);

  /// Returns a sentence that names the nodes whose GPUs have become idle since it was last asked,
  /// and how many of their GPUs; nothing where there are none.
  [[nodiscard]] std::optional<std::string> due(Clock::time_point now);

 private:
  struct Gpu {
    Clock::time_point busy_at{};  ///< last seen at work; the start where it never was
    Clock::time_point heard_at{};
    bool has_worked = false;
    bool is_told = false;
  };

  std::optional<std::chrono::seconds> limit_;
  std::optional<Clock::time_point> began_;
  /// By node; a GPU is known by the rank that tells of it and its place in that rank's list.
  std::map<std::string, std::map<std::pair<int, std::size_t>, Gpu>> nodes_;
};

}  // namespace dlrun::agent
