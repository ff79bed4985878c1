#pragma once
// Decides when a command queries the executor, or submits, again: after about 1 s, 2 s, 4 s ...,
// and finally about every 40 s. The first attempt is due immediately.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>

namespace dlrun {

/// Exponential back-off with jitter, for one watcher: a command that waits for a run, such as
/// `dlrun wait`, or a search that submits points again.
class Backoff {
 public:
  using Clock = std::chrono::steady_clock;

  /// Returns true if the next attempt is due.
  bool is_due() const { return Clock::now() >= next_; }
  /// Returns the largest age of a shared, cached answer that may still be used. This age is shorter
  /// than the pause between two queries of a watcher, so a watcher never reuses its own last
  /// answer, only a newer one of another watcher. All watchers of one user whose pauses have grown
  /// to 40 s therefore send, in sum, at most one query in 30 s.
  std::chrono::milliseconds max_age() const { return max_age_; }
  /// Must be called after each attempt, a query or a submission. Doubles the pause until the next
  /// attempt, up to about 40 s.
  void record_attempt() {
    // Jitter spreads watchers that a shell loop started at the same moment.
    std::uniform_real_distribution<double> spread(0.8, 1.2);
    next_ = Clock::now() + std::chrono::milliseconds(static_cast<std::int64_t>(
                               static_cast<double>(pause_.count()) * spread(random_)));
    max_age_ = pause_ * 3 / 4;
    pause_ = std::min(pause_ * 2, kLongestPause);
  }

 private:
  static constexpr std::chrono::milliseconds kFirstPause{1000};
  static constexpr std::chrono::milliseconds kLongestPause{40'000};

  std::minstd_rand random_{std::random_device{}()};
  std::chrono::milliseconds pause_ = kFirstPause;
  std::chrono::milliseconds max_age_ = kFirstPause / 2;
  Clock::time_point next_ = Clock::now();
};

}  // namespace dlrun
