#pragma once
// The signals that came to a task, by which way, and those that its program still has to get. A
// signal to the whole process tree (`proctrack/linuxproc`) comes to the agent, to its guard and to
// the program itself; one to the task's first process alone is passed on. No I/O, no clock.

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace dlrun::agent {

class SignalPost {
 public:
  using Clock = std::chrono::steady_clock;

  /// A signal to a whole tree reaches its processes one by one, within so long also where the
  /// processors have far more to do than they can: within 60 ms it does not always.
  static constexpr std::chrono::milliseconds kTreeWait{200};

  /// False: a copy of one that has come already, or the same again within a second.
  [[nodiscard]] bool take(int signal, bool came_by_guard, Clock::time_point now);
  [[nodiscard]] bool has_come(int signal) const { return last_.contains(signal); }
  /// It came to the agent and, separately, to the guard: then it was sent to the whole tree, and
  /// the program has it.
  [[nodiscard]] bool reached_whole_tree(int signal) const {
    return came_direct_.contains(signal) && came_by_guard_.contains(signal);
  }

  /// The program is to get this one, unless it turns out to have it.
  void pass_on(int signal, Clock::time_point now) { waiting_.emplace(now + kTreeWait, signal); }
  /// What is to be sent to the program now.
  [[nodiscard]] std::vector<int> take_due(Clock::time_point now);
  [[nodiscard]] std::optional<Clock::time_point> next_deadline() const {
    return waiting_.empty() ? std::nullopt : std::optional(waiting_.begin()->first);
  }

 private:
  std::set<int> came_direct_;
  std::set<int> came_by_guard_;
  std::map<int, Clock::time_point> last_;
  std::multimap<Clock::time_point, int> waiting_;
};

}  // namespace dlrun::agent
