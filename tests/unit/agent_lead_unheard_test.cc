// Tests which rank or node is blamed, if any, after lead was suspended (by SIGSTOP, for example),
// or when agents end their ranks because the agents no longer hear lead.

#include <signal.h>

#include <doctest/doctest.h>

#include "tests/unit/attempt_scene.h"

namespace dlrun::agent {
namespace {

/// Returns the end of a rank whose agent heard nothing from lead for too long.
RankEnd end_by_agent() {
  RankEnd end{128 + SIGTERM, SIGTERM, "ended by its agent: no message from lead for 10 s", false};
  end.lead_was_unheard = true;
  return end;
}

/// Moves the clock, and reports that lead continues after it was suspended for this time.
void suspend_lead(Scene& scene, seconds time) {
  scene.now += time;
  scene.attempt.on_lead_suspended(time, scene.now);
}

TEST_CASE("a rank without an exit record is reported even if lead was suspended just before") {
  Scene scene;
  scene.all_join(4);
  for (const int rank : {0, 1, 3}) scene.attempt.on_exit(rank, {0, 0, {}}, scene.now);
  scene.attempt.on_step_end(0, "", scene.now);
  suspend_lead(scene, seconds(3));
  scene.pass(seconds(1));
  REQUIRE(scene.attempt.is_over());
  CHECK(scene.attempt.end().first_failed->rank == 2);
  CHECK(scene.attempt.end().message ==
        "rank 2 on n2: has no exit record, and the step is over; dlrun ends the other 3 ranks");
  CHECK(scene.actions.printed == std::vector<std::string>{scene.attempt.end().message});
}

TEST_CASE(
    "if lead was suspended for longer than its lease, the message says so, and no rank is blamed") {
  Scene scene;
  scene.all_join(4);
  suspend_lead(scene, seconds(14));
  SUBCASE("the exit records of ranks that were ended by their agents arrive first") {}
  SUBCASE("the exit of a rank whose peer was ended arrives first") {
    scene.attempt.on_exit(0, {68, 0, "rank 1 is gone", true, 1}, scene.now);
    CHECK(scene.actions.printed.empty());
  }
  SUBCASE("the exit of a rank whose peer was ended arrives first, with a code but no message") {
    scene.attempt.on_exit(0, {1, 0, "", true}, scene.now);
    CHECK(scene.actions.printed.empty());
  }
  for (int rank = 0; rank < 4; ++rank) scene.attempt.on_exit(rank, end_by_agent(), scene.now);
  CHECK(scene.actions.broadcast_count("end") == 1);
  scene.attempt.on_step_end(0, "", scene.now);
  scene.pass(seconds(1));
  REQUIRE(scene.attempt.is_over());
  const auto& end = scene.attempt.end();
  CHECK(end.reason == EndReason::kLeadUnheard);
  CHECK_FALSE(end.first_failed.has_value());
  CHECK(end.code == 143);
  CHECK(end.cause == Cause::kFailure);
  CHECK(end.message ==
        "lead was suspended for 14 s; the agents did not hear lead and have ended their ranks");
  CHECK(scene.actions.count("rank_failed") == 0);
}

TEST_CASE("if agents do not hear lead although lead was running, the cause is a cut network") {
  Scene scene;
  scene.all_join(4);
  scene.pass(seconds(10));
  scene.attempt.on_exit(2, end_by_agent(), scene.now);
  scene.attempt.on_exit(3, end_by_agent(), scene.now);
  CHECK(scene.actions.broadcast_count("end") == 1);
  for (const int rank : {0, 1}) scene.attempt.on_exit(rank, {143, SIGTERM, ""}, scene.now);
  scene.attempt.on_step_end(0, "", scene.now);
  REQUIRE(scene.attempt.is_over());
  CHECK(scene.attempt.end().cause == Cause::kNodeFailure);
  CHECK_FALSE(scene.attempt.end().first_failed.has_value());
  CHECK(scene.attempt.end().message ==
        "the agent of rank 2 on n2 did not hear lead and has ended the rank: the network between "
        "n2 and lead's node was cut");
}

TEST_CASE("a rank that failed before the agents stopped hearing lead stays the cause") {
  Scene scene;
  scene.all_join(4);
  scene.attempt.on_exit(3, {139, SIGSEGV, "", true}, scene.now);
  REQUIRE(scene.actions.printed.size() == 1);
  suspend_lead(scene, seconds(14));
  scene.attempt.on_exit(0, end_by_agent(), scene.now);
  scene.attempt.on_step_end(0, "", scene.now);
  scene.pass(seconds(3));
  REQUIRE(scene.attempt.is_over());
  CHECK(scene.attempt.end().reason == EndReason::kRankFailed);
  CHECK(scene.attempt.end().first_failed->rank == 3);
}

TEST_CASE(
    "a rank that fails by itself while lead is suspended is named shortly after lead continues") {
  Scene scene;
  scene.all_join(4);
  suspend_lead(scene, seconds(5));
  scene.attempt.on_exit(3, {139, SIGSEGV, "", true}, scene.now);
  CHECK(scene.actions.printed.empty());
  scene.pass(Attempt::kCulpritWait);
  REQUIRE(scene.actions.printed.size() == 1);
  CHECK(scene.actions.printed[0] ==
        "rank 3 on n2 was killed by SIGSEGV; dlrun ends the other 3 ranks");
}

TEST_CASE("in a preemption's grace time ranks that no longer heard lead count as preempted") {
  AttemptOptions options;
  options.forwards_usr1 = true;
  Scene scene(options);
  scene.all_join(4);
  scene.attempt.on_rank_signal(0, SIGTERM, scene.now);
  scene.attempt.on_exit(1, end_by_agent(), scene.now);
  scene.attempt.on_step_end(0, "", scene.now);
  scene.pass(seconds(3));
  REQUIRE(scene.attempt.is_over());
  CHECK(scene.attempt.end().cause == Cause::kPreemption);
}

}  // namespace
}  // namespace dlrun::agent
