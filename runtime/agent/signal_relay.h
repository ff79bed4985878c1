#pragma once
// Tracks the signals that reached a task, so that the program gets each signal exactly once. With
// `proctrack/linuxproc`, Slurm sends a signal to the whole process tree: the agent, its guard
// (guard.h) and the program. With other trackers a signal reaches only the guard, which passes it
// on to the agent, and the agent must pass it on to the program. No I/O, no clock.

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace dlrun::agent {

class SignalRelay {
 public:
  using Clock = std::chrono::steady_clock;

  /// Slurm signals the processes of a tree one by one. This is the time until the signal has
  /// reached all of them, even on an overloaded machine. 60 ms are not always enough.
  static constexpr std::chrono::milliseconds kTreeWait{200};

  /// Records a signal. Returns false if the same signal has come within the last second: the new
  /// one is then a copy or a repetition.
  [[nodiscard]] bool record(int signal, bool came_by_guard, Clock::time_point now);
  [[nodiscard]] bool has_come(int signal) const { return last_arrival_.contains(signal); }
  /// Returns true if the signal reached both the agent and its guard. The signal was then sent to
  /// the whole tree, so the program has also got it.
  [[nodiscard]] bool reached_whole_tree(int signal) const {
    return direct_signals_.contains(signal) && guard_signals_.contains(signal);
  }

  /// Queues the signal for the program. take_due() drops it if the whole tree has got it.
  void pass_on_later(int signal, Clock::time_point now) {
    queued_.emplace(now + kTreeWait, signal);
  }
  /// Returns the signals to send to the program now.
  [[nodiscard]] std::vector<int> take_due(Clock::time_point now);
  [[nodiscard]] std::optional<Clock::time_point> next_deadline() const {
    return queued_.empty() ? std::nullopt : std::optional(queued_.begin()->first);
  }

 private:
  std::set<int> direct_signals_;
  std::set<int> guard_signals_;
  std::map<int, Clock::time_point> last_arrival_;
  std::multimap<Clock::time_point, int> queued_;
};

}  // namespace dlrun::agent
