#include <signal.h>

#include <doctest/doctest.h>

#include "runtime/agent/signal_relay.h"

using dlrun::agent::SignalRelay;
using std::chrono::milliseconds;

namespace {

const SignalRelay::Clock::time_point kStart{};

}  // namespace

TEST_CASE(
    "a signal to the task's first process alone is passed on, once, when it can no longer be one "
    "to the whole tree") {
  SignalRelay relay;
  CHECK(relay.take(SIGUSR1, true, kStart));
  relay.pass_on(SIGUSR1, kStart);
  REQUIRE(relay.next_deadline());
  CHECK(relay.take_due(*relay.next_deadline() - milliseconds(1)).empty());
  CHECK(relay.take_due(*relay.next_deadline()) == std::vector{SIGUSR1});
  CHECK_FALSE(relay.next_deadline());
}

TEST_CASE(
    "a signal to the whole tree is not passed on: the program has it, however late the second copy "
    "comes to us") {
  for (const bool guard_is_first : {true, false}) {
    SignalRelay relay;
    CHECK(relay.take(SIGUSR1, guard_is_first, kStart));
    relay.pass_on(SIGUSR1, kStart);
    // With a build and two busy loops running, the second copy arrived after 60 ms or more.
    CHECK(relay.take_due(kStart + milliseconds(149)).empty());
    CHECK_FALSE(relay.take(SIGUSR1, !guard_is_first, kStart + milliseconds(150)));
    CHECK(relay.reached_whole_tree(SIGUSR1));
    CHECK(relay.take_due(kStart + milliseconds(1000)).empty());
  }
}

TEST_CASE(
    "the same signal again within a second is one signal, later it is another, and each is judged "
    "by itself") {
  SignalRelay relay;
  CHECK(relay.take(SIGTERM, true, kStart));
  CHECK_FALSE(relay.take(SIGTERM, true, kStart + milliseconds(900)));
  CHECK(relay.take(SIGTERM, true, kStart + milliseconds(1100)));
  CHECK(relay.take(SIGUSR2, false, kStart));
  CHECK(relay.has_come(SIGUSR2));
  CHECK_FALSE(relay.has_come(SIGUSR1));
  CHECK_FALSE(relay.reached_whole_tree(SIGTERM));
  relay.pass_on(SIGTERM, kStart);
  relay.pass_on(SIGUSR2, kStart + milliseconds(1));
  CHECK(relay.take_due(kStart + milliseconds(1000)) == std::vector{SIGTERM, SIGUSR2});
}
