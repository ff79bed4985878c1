#pragma once
// A test environment for a RankState: it records the actions of the state, and the test moves the
// clock.

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/agent/rank_state.h"

namespace dlrun::agent {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A rank whose program the test simulates, and a clock that the test moves.
struct RankScene : RankOutlet {
  std::vector<Json> sent;
  std::vector<std::string> printed;  ///< the lines of say()
  /// The orders about processes, oldest first: "start", "kill", "TERM tree", and signals by their
  /// number, such as "signal 10".
  std::vector<std::string> orders;
  int beat_count = 0;
  bool program_is_suspended = false;  ///< suspended, as by SIGSTOP; the program has not ended
  bool is_any_alive = true;           ///< true if a kill finds a living process
  Clock::time_point now{std::chrono::hours(1)};
  RankState state{*this, now};

  void send(const MessageToLead& message) override { sent.push_back(json_of(message)); }
  void send_beat(Clock::time_point) override { ++beat_count; }
  void say(std::string_view line) override { printed.emplace_back(line); }
  void start_program() override {
    orders.emplace_back("start");
    state.on_program_start();
  }
  void look_at_program() override { state.on_look(program_is_suspended); }
  void signal_program(int signal) override { orders.push_back("signal " + std::to_string(signal)); }
  void end_processes() override { orders.emplace_back("TERM tree"); }
  void kill_processes() override {
    orders.emplace_back("kill");
    state.on_killed(is_any_alive, is_any_alive, now);
  }

  /// Joins lead and starts the program.
  void run_with_lead() {
    state.on_connected();
    run_alone();
  }
  /// Starts the program. The rank has no lead, unless run_with_lead() calls this.
  void run_alone() {
    state.on_start();
    start_program();
    orders.clear();
  }
  /// Moves the clock by at most 100 ms at a time, and lets the state react each time.
  void pass(milliseconds time) {
    for (const auto end = now + time; now < end;) {
      now = std::min<Clock::time_point>(now + milliseconds(100), end);
      state.tick(now);
    }
  }
  /// Moves the clock second by second. Lead is heard at the start of each second.
  void pass_with_lead(seconds time) {
    for (int second = 0; second < time.count(); ++second) {
      state.on_heard();
      pass(seconds(1));
    }
  }
  /// Returns the exit record that was sent; null if there is none.
  [[nodiscard]] Json exit_record() const {
    for (const auto& message : sent) {
      if (message["type"] == "exit") return message;
    }
    return nullptr;
  }
  /// Returns the number of messages of this type that were sent.
  [[nodiscard]] int sent_count(std::string_view type) const {
    int found = 0;
    for (const auto& message : sent) found += message["type"] == type ? 1 : 0;
    return found;
  }
  [[nodiscard]] bool is_done(const RankState::Output& output = {}) const {
    return state.is_done(output, now);
  }
};

}  // namespace dlrun::agent
