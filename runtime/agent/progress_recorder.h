#pragma once
// Turns the program's reports into events for the record, at most one a second of each kind. No
// I/O, no clock.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "common/run_events.h"
#include "runtime/agent/messages.h"

namespace dlrun::agent {

/// Holds an event back, so that at most one a second is recorded. A later event replaces it.
template <typename Event>
class HeldEvent {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kEvery{1000};

  void hold(Event event) { held_ = std::move(event); }
  /// Returns the held event if at least one second has passed since it last returned one.
  [[nodiscard]] std::optional<Event> take_due(Clock::time_point now) {
    if (!held_ || now < returned_at_ + kEvery) return std::nullopt;
    returned_at_ = now;
    return take();
  }
  /// Returns the held event, due or not.
  [[nodiscard]] std::optional<Event> take() { return std::exchange(held_, std::nullopt); }
  void drop() { held_.reset(); }
  [[nodiscard]] std::optional<Clock::time_point> next_deadline() const {
    return held_ ? std::optional(returned_at_ + kEvery) : std::nullopt;
  }

 private:
  std::optional<Event> held_;
  Clock::time_point returned_at_{};  ///< when take_due() last returned an event
};

class ProgressRecorder {
 public:
  /// Returns true for a report that carries the result of a program whose work is complete.
  [[nodiscard]] static bool is_result(const Json& body);

  /// Notes the position in a report, and whether it is the last step. Returns the position, such as
  /// "step 120"; empty if the report has none.
  std::string update_position(const Json& body);
  /// Holds the report for the record, if it has a field of events::Progress. Ignores a report that
  /// has "checkpoint" but no "step".
  void hold(const Json& body);
  /// Adds a final report to the result, and drops the held progress. Each `result` event contains
  /// the whole result.
  void add_result(const Json& body);

  /// Returns true once the program has reported that its work is complete: a final report, or a
  /// `step` that has reached `steps`.
  [[nodiscard]] bool has_reported_done() const { return has_reported_done_; }
  /// Returns the highest step that the program reported (the epoch, if the program reports no
  /// step); nullopt if it reported neither.
  [[nodiscard]] std::optional<std::int64_t> step() const { return step_; }

  [[nodiscard]] HeldEvent<events::Progress>& progress() { return progress_; }
  [[nodiscard]] HeldEvent<events::FinalReports>& result() { return result_; }
  [[nodiscard]] const HeldEvent<events::Progress>& progress() const { return progress_; }
  [[nodiscard]] const HeldEvent<events::FinalReports>& result() const { return result_; }

 private:
  std::optional<std::int64_t> step_;
  bool has_reported_done_ = false;
  HeldEvent<events::Progress> progress_;
  events::FinalReports whole_result_;
  HeldEvent<events::FinalReports> result_;
};

}  // namespace dlrun::agent
