#pragma once
// Decides when an attempt counts as hanging:
// - a program that has reported progress stops reporting it;
// - with health.hang_after, a program that reports no progress prints nothing on any rank;
// - a process has been suspended (SIGSTOP) for suspended_limit(), which Attempt checks.
// Without health.hang_after, a program that never reports progress counts as hanging only if it is
// suspended. No I/O, no clock.

#include <chrono>
#include <optional>
#include <string>

namespace dlrun::agent {

class HangWatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// Limit for programs that report progress if health.hang_after is not set. Longer than any
  /// evaluation should take.
  static constexpr std::chrono::seconds kProgressLimit{30 * 60};
  /// Limit for suspended processes if health.hang_after is not set. A user may suspend a process on
  /// purpose, to examine it.
  static constexpr std::chrono::seconds kSuspendedLimit{60};

  /// Longest time until lead knows that a rank has printed something. The rank's next heartbeat
  /// reports the output; heartbeats are sent every 3 s.
  static constexpr std::chrono::seconds kOutputLag{4};

  /// limit: health.hang_after.
  explicit HangWatch(std::optional<std::chrono::seconds> limit) : limit_(limit) {}

  /// Begins to watch: the programs start now.
  void on_start(Clock::time_point now);
  /// Notes a progress report. where: the reported position, such as "step 120"; may be empty.
  void on_progress(Clock::time_point now, std::string where);
  /// Notes that a rank printed something. Does nothing if the program reports progress.
  void on_output(Clock::time_point now) {
    if (!has_reported_) heard_ = now;
  }
  /// Notes a report that could not be parsed. The program is alive, but does not count as a program
  /// that reports progress.
  void on_unreadable_report(Clock::time_point now) { heard_ = now; }
  /// Excludes `time`, for which this process was suspended and could hear no rank. In a suspended
  /// job the ranks are suspended as well.
  void on_lead_suspended(Clock::duration time) { heard_ += time; }
  /// Stops watching. Called in three cases: the program has made its final report; lead is about to
  /// end the attempt because the time limit is near; a signal asks the programs for a checkpoint.
  void stop_watching() { is_watching_ = false; }

  /// Returns a sentence that describes the hang, once the limit has passed.
  [[nodiscard]] std::optional<std::string> hang_message(Clock::time_point now) const;
  /// Returns the time at which the limit passes, if nothing is heard until then; nullopt: no limit
  /// applies.
  [[nodiscard]] std::optional<Clock::time_point> next_deadline() const;
  [[nodiscard]] std::chrono::seconds suspended_limit() const {
    return limit_.value_or(kSuspendedLimit);
  }

 private:
  std::optional<std::chrono::seconds> limit_;
  bool is_watching_ = false;
  bool has_reported_ = false;
  /// Time of the latest report. Before the first report: time of the latest output, or else of the
  /// start.
  Clock::time_point heard_{};
  std::string where_;  ///< the position in the latest report
};

}  // namespace dlrun::agent
