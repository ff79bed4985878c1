#pragma once
// When does a step that says nothing count as hanging? A program that reports progress and stopped
// reporting; one that was given a limit and shows no sign of life; a process that is stopped. Slow
// programs without a limit are left alone. No I/O, no clock.

#include <chrono>
#include <optional>
#include <string>

namespace dlrun::agent {

class HangWatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// Of programs that report progress, where health.hang_after says nothing. Longer than any
  /// evaluation should be.
  static constexpr std::chrono::seconds kProgressLimit{30 * 60};
  /// Of processes that are stopped, where it says nothing: people stop a process to look at it.
  static constexpr std::chrono::seconds kStoppedLimit{60};

  /// Ranks tell of output with their beats only, every 3 s.
  static constexpr std::chrono::seconds kOutputLag{4};

  /// limit: health.hang_after.
  explicit HangWatch(std::optional<std::chrono::seconds> limit) : limit_(limit) {}

  void on_start(Clock::time_point now);
  /// where: how far the program says that it is, "step 120"; may be empty.
  void on_progress(Clock::time_point now, std::string where);
  /// Any rank printed something: a sign of life of a program that reports nothing.
  void on_output(Clock::time_point now) {
    if (!reports_) heard_ = now;
  }
  /// The program says something that nobody can read: it lives, yet whether it reports progress is
  /// not known.
  void on_sign_of_life(Clock::time_point now) { heard_ = now; }
  /// We were stopped ourselves for so long, as the ranks of a suspended job are: nobody could be
  /// heard.
  void on_asleep(Clock::duration time) { heard_ += time; }
  /// The program has said its last word, or was asked to end: whatever it does now may take its
  /// time.
  void off() { is_on_ = false; }

  /// The sentence, once its time has come.
  [[nodiscard]] std::optional<std::string> due(Clock::time_point now) const;
  [[nodiscard]] std::optional<Clock::time_point> next_deadline() const { return deadline(); }
  [[nodiscard]] std::chrono::seconds stopped_limit() const {
    return limit_.value_or(kStoppedLimit);
  }

 private:
  [[nodiscard]] std::optional<Clock::time_point> deadline() const;

  std::optional<std::chrono::seconds> limit_;
  bool is_on_ = false;
  bool reports_ = false;
  Clock::time_point heard_{};
  std::string where_;
};

}  // namespace dlrun::agent
