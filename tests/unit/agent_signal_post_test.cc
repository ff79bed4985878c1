#include <signal.h>

#include <doctest/doctest.h>

#include "runtime/agent/signal_post.h"

using dlrun::agent::SignalPost;
using std::chrono::milliseconds;

namespace {

const SignalPost::Clock::time_point kStart{};

}  // namespace

TEST_CASE(
    "a signal to the task's first process alone is passed on, once, when it can no longer be one "
    "to the whole tree") {
  SignalPost post;
  CHECK(post.take(SIGUSR1, true, kStart));
  post.pass_on(SIGUSR1, kStart);
  REQUIRE(post.next_deadline());
  CHECK(post.take_due(*post.next_deadline() - milliseconds(1)).empty());
  CHECK(post.take_due(*post.next_deadline()) == std::vector{SIGUSR1});
  CHECK_FALSE(post.next_deadline());
}

TEST_CASE(
    "a signal to the whole tree is not passed on: the program has it, however late the second copy "
    "comes to us") {
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
    "the same signal again within a second is one signal, later it is another, and each is judged "
    "by itself") {
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
