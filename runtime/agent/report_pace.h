#pragma once
// Decides which reports of the program go to TensorBoard and MLflow (the key `track`), so that the
// event file of a long attempt stays small. events.jsonl has a pace of its own (HeldEvent).

#include <algorithm>
#include <chrono>
#include <optional>

namespace dlrun::agent {

class ReportPace {
 public:
  using Clock = std::chrono::steady_clock;
  explicit ReportPace(Clock::time_point start) : start_(start) {}

  /// Returns true if the report is to be passed on, and then counts it as passed on. A final report
  /// is always passed on. Any other report is passed on only if enough time has passed since the
  /// last report that was passed on: one second, or 1/5000 of the time since the start if that is
  /// longer.
  [[nodiscard]] bool admit(bool is_final, Clock::time_point now) {
    constexpr std::chrono::milliseconds kLeast{1000};
    constexpr int kParts = 5000;
    const auto pause = std::max<Clock::duration>(kLeast, (now - start_) / kParts);
    if (!is_final && last_admitted_ && now < *last_admitted_ + pause) return false;
    last_admitted_ = now;
    return true;
  }

 private:
  Clock::time_point start_;
  std::optional<Clock::time_point> last_admitted_;
};

}  // namespace dlrun::agent
