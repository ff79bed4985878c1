#pragma once
// Holds the beginning of a line until the line ends, so that lines of several ranks do not mix.

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace dlrun::agent {

/// A carriage return also ends a line. A line that stays open, such as a prompt or a progress bar,
/// is passed on after kOpenLimit. An open line that is too long is passed on immediately.
class LineHolder {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kOpenLimit{300};

  /// limit_bytes: the length at which an open line is passed on immediately.
  explicit LineHolder(std::size_t limit_bytes) : limit_bytes_(limit_bytes) {}

  /// Adds text. Returns the text to pass on now: the lines that are complete, or an open line that
  /// is too long.
  [[nodiscard]] std::string add(std::string_view bytes, Clock::time_point now);
  /// Returns the open line if it is older than kOpenLimit; otherwise an empty text.
  [[nodiscard]] std::string take_late(Clock::time_point now);
  /// Returns the open line.
  [[nodiscard]] std::string take_rest();
  /// Returns the time at which take_late() returns the open line; nullopt without an open line.
  [[nodiscard]] std::optional<Clock::time_point> deadline() const {
    return open_.empty() ? std::nullopt : std::optional(open_since_ + kOpenLimit);
  }

  [[nodiscard]] std::size_t held_bytes() const { return open_.size(); }

 private:
  std::size_t limit_bytes_;
  std::string open_;
  Clock::time_point open_since_{};
};

}  // namespace dlrun::agent
