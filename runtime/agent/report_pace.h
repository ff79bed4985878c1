#pragma once
// Decides which reports of the program are recorded (track), so that the record of a long attempt
// stays small.

#include <algorithm>
#include <chrono>
#include <optional>

namespace dlrun::agent {

class ReportPace {
 public:
  using Clock = std::chrono::steady_clock;
  explicit ReportPace(Clock::time_point start) : start_(start) {}

  /// Returns true if the report is to be recorded, and then counts it as recorded. Always returns
  /// true for a final report. Returns true for a report that is not final if the last recorded one
  /// is old enough: one second, or 1/5000 of the time since the start if that is longer.
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
