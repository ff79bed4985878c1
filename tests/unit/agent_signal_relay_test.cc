// Tests how the agent of a task passes a signal on to the program. A signal to the whole process
// tree reaches the agent directly and through its guard: these are the signal's two copies.

#include <signal.h>

#include <doctest/doctest.h>

#include "runtime/agent/signal_relay.h"

using dlrun::agent::SignalRelay;
using std::chrono::milliseconds;

namespace {

const SignalRelay::Clock::time_point kStart{};
constexpr bool kByGuard = true, kDirectly = false;

}  // namespace

TEST_CASE("a signal is passed on once if no second copy arrives in time") {
  SignalRelay relay;
  CHECK(relay.record(SIGUSR1, kByGuard, kStart));
  relay.pass_on_later(SIGUSR1, kStart);
  REQUIRE(relay.next_deadline());
  CHECK(relay.take_due(*relay.next_deadline() - milliseconds(1)).empty());
  CHECK(relay.take_due(*relay.next_deadline()) == std::vector{SIGUSR1});
  CHECK_FALSE(relay.next_deadline());
}

TEST_CASE("a signal to the whole process tree is not passed on, even if the second copy is late") {
  for (const bool is_first_by_guard : {kByGuard, kDirectly}) {
    SignalRelay relay;
    CHECK(relay.record(SIGUSR1, is_first_by_guard, kStart));
    relay.pass_on_later(SIGUSR1, kStart);
    // With a build and two busy loops running, the second copy arrived after 60 ms or more.
    CHECK(relay.take_due(kStart + milliseconds(149)).empty());
    CHECK_FALSE(relay.record(SIGUSR1, !is_first_by_guard, kStart + milliseconds(150)));
    CHECK(relay.reached_whole_tree(SIGUSR1));
    CHECK(relay.take_due(kStart + milliseconds(1000)).empty());
  }
}

TEST_CASE(
    "equal signals within a second count as one, later ones are new, and different signals are "
    "independent") {
  SignalRelay relay;
  CHECK(relay.record(SIGTERM, kByGuard, kStart));
  CHECK_FALSE(relay.record(SIGTERM, kByGuard, kStart + milliseconds(900)));
  CHECK(relay.record(SIGTERM, kByGuard, kStart + milliseconds(1100)));
  CHECK(relay.record(SIGUSR2, kDirectly, kStart));
  CHECK(relay.has_come(SIGUSR2));
  CHECK_FALSE(relay.has_come(SIGUSR1));
  CHECK_FALSE(relay.reached_whole_tree(SIGTERM));
  relay.pass_on_later(SIGTERM, kStart);
  relay.pass_on_later(SIGUSR2, kStart + milliseconds(1));
  CHECK(relay.take_due(kStart + milliseconds(1000)) == std::vector{SIGTERM, SIGUSR2});
}
