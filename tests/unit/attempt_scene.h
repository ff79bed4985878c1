#pragma once
// A test environment for an Attempt: its actions are recorded, and the test moves the clock.

#include <signal.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/agent/attempt.h"

namespace dlrun::agent {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Records every action of an attempt.
struct ActionLog final : AttemptOutlet {
  std::vector<std::pair<int, Json>> sent;
  std::vector<Json> broadcasts;
  std::vector<std::pair<std::string, Json>> events;
  std::vector<std::string> printed;   ///< the lines of say()
  std::vector<bool> stop_step_calls;  ///< for each call of stop_step(): true if it kills the step

  void send(int rank, const MessageToRank& message) override {
    sent.emplace_back(rank, json_of(message));
  }
  void send_text(int rank, std::string_view payload) override {
    sent.emplace_back(rank, Json::parse(payload));
  }
  void broadcast(const MessageToRank& message) override { broadcasts.push_back(json_of(message)); }
  void record(const RunEvent& event) override {
    events.emplace_back(kind_of(event), fields_of(event));
  }
  void say(std::string_view line) override { printed.emplace_back(line); }
  void stop_step(bool kills) override { stop_step_calls.push_back(kills); }

  /// Returns the number of recorded events with this name.
  [[nodiscard]] int count(std::string_view event) const {
    int found = 0;
    for (const auto& [name, fields] : events) found += name == event ? 1 : 0;
    return found;
  }
  /// Returns the fields of the last event with this name; an empty object if there is none.
  [[nodiscard]] Json last(std::string_view event) const {
    for (auto at = events.rbegin(); at != events.rend(); ++at) {
      if (at->first == event) return at->second;
    }
    return Json::object();
  }
  /// Returns the number of broadcasts of this type.
  [[nodiscard]] int broadcast_count(std::string_view type) const {
    int found = 0;
    for (const auto& message : broadcasts) found += message["type"] == type ? 1 : 0;
    return found;
  }
};

/// An attempt with two ranks on each of n1, n2, ..., and a clock that the test moves.
struct Scene {
  ActionLog actions;
  Attempt::Clock::time_point now{std::chrono::hours(1)};
  Attempt attempt;

  explicit Scene(AttemptOptions options = {}) : attempt(std::move(options), actions, now) {}

  /// Moves the clock and lets the attempt react.
  void pass(milliseconds time) {
    now += time;
    attempt.tick(now);
  }
  /// Lets a rank join. why_unfit: the reason why its node is unfit; empty if it is fit.
  void hello(int rank, int size, std::string why_unfit = {}) {
    Hello hello{{rank, size, rank % 2, 2, rank / 2, size / 2, WorldSource::kSlurm}};
    hello.complaint = std::move(why_unfit);
    hello.host = "n" + std::to_string(rank / 2 + 1);
    hello.addr = "10.0.0." + std::to_string(rank / 2 + 1);
    hello.pid = 1000 + rank;
    hello.port = rank == 0 ? 29500 : 0;
    attempt.on_hello(rank, hello, now);
  }
  /// Lets all ranks join, in descending order.
  void all_join(int size) {
    for (int rank = size - 1; rank >= 0; --rank) hello(rank, size);
  }
};

/// Reports that SIGTERM, which lead had ordered, has ended the ranks 0 to 3, and then that the step
/// has ended.
inline void end_four_ranks(Scene& scene) {
  for (int rank = 0; rank < 4; ++rank)
    scene.attempt.on_exit(rank, {128 + SIGTERM, SIGTERM, {}}, scene.now);
  scene.attempt.on_step_end(0, "", scene.now);
}

}  // namespace dlrun::agent
