#include <signal.h>

#include <doctest/doctest.h>

#include "runtime/agent/signal_post.h"

using dlrun::agent::SignalPost;
using std::chrono::milliseconds;

namespace {

const SignalPost::Clock::time_point kStart{};

}  // namespace

TEST_CASE(
    "a signal that only one process of the task received is passed on once, after the time in "
    "which a second copy may arrive") {
  SignalPost post;
  CHECK(post.take(SIGUSR1, true, kStart));
  post.pass_on(SIGUSR1, kStart);
  REQUIRE(post.next_deadline());
  CHECK(post.take_due(*post.next_deadline() - milliseconds(1)).empty());
  CHECK(post.take_due(*post.next_deadline()) == std::vector{SIGUSR1});
  CHECK_FALSE(post.next_deadline());
}

TEST_CASE(
    "a signal to the whole process tree is not passed on, because the program already has it, even "
    "if the second copy is late") {
  for (const bool guard_is_first : {true, false}) {
    SignalPost post;
    CHECK(post.take(SIGUSR1, guard_is_first, kStart));
    post.pass_on(SIGUSR1, kStart);
    // With a build and two busy loops running, the second copy arrived after 60 ms or more.
    CHECK(post.take_due(kStart + milliseconds(149)).empty());
    CHECK_FALSE(post.take(SIGUSR1, !guard_is_first, kStart + milliseconds(150)));
    CHECK(post.reached_whole_tree(SIGUSR1));
    CHECK(post.take_due(kStart + milliseconds(1000)).empty());
  }
}

TEST_CASE(
    "equal signals within a second count as one, later ones are new, and different signals are "
    "handled independently") {
  SignalPost post;
  CHECK(post.take(SIGTERM, true, kStart));
  CHECK_FALSE(post.take(SIGTERM, true, kStart + milliseconds(900)));
  CHECK(post.take(SIGTERM, true, kStart + milliseconds(1100)));
  CHECK(post.take(SIGUSR2, false, kStart));
  CHECK(post.has_come(SIGUSR2));
  CHECK_FALSE(post.has_come(SIGUSR1));
  CHECK_FALSE(post.reached_whole_tree(SIGTERM));
  post.pass_on(SIGTERM, kStart);
  post.pass_on(SIGUSR2, kStart + milliseconds(1));
  CHECK(post.take_due(kStart + milliseconds(1000)) == std::vector{SIGTERM, SIGUSR2});
}
