// Tests how an attempt handles unfit nodes, hanging ranks, nodes that fall silent, early stops and
// rehearsals.

#include <signal.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/attempt_scene.h"

namespace dlrun::agent {
namespace {

TEST_CASE(
    "a node that is not fit ends the attempt before any program starts, and all unfit nodes are "
    "excluded") {
  Scene scene;
  scene.hello(2, 6, "disk: cannot create a file in /tmp: No space left on device");
  for (const int rank : {0, 1, 3, 5}) scene.hello(rank, 6);
  scene.hello(4, 6, "gpu: nvidia-smi lists no GPU");
  CHECK(scene.actions.sent.empty());  // the ranks are not started
  for (int rank = 0; rank < 6; ++rank) scene.attempt.on_lost(rank, "", scene.now);
  scene.attempt.on_step_end(1, "", scene.now);
  CHECK(scene.attempt.end().code == 80);
  CHECK(scene.attempt.end().message ==
        "rank 2 on n2: n2 is not fit for the job: disk: cannot create a file in /tmp: No space "
        "left on device; dlrun ends the other 5 ranks");
  CHECK(scene.attempt.end().cause == Cause::kNodeFailure);
  CHECK(scene.attempt.end().bad_nodes == std::vector<std::string>{"n2", "n3"});
}

TEST_CASE(
    "nodes that fail their checks are bad, but if all fail in the same way, the run does not start "
    "again") {
  const std::string reason = "gpu: nvidia-smi: No such file or directory";
  Scene scene;
  scene.hello(2, 4, reason);
  CHECK(scene.actions.broadcast_count("end") == 0);  // so far only n2 has failed the check
  SUBCASE("all nodes fail alike") {
    scene.hello(0, 4, reason);
    CHECK(scene.actions.printed.back() ==
          "all 2 nodes fail the same check: " + reason +
              "; the cause is the spec or the site, not a node (health.preflight)");
    scene.hello(1, 4, reason);
    scene.attempt.on_step_end(1, "", scene.now);
    scene.pass(seconds(3));
    REQUIRE(scene.attempt.is_over());
    CHECK(scene.attempt.end().code == 80);
    CHECK(scene.attempt.end().reason == EndReason::kPreflightFailed);
    CHECK(scene.attempt.end().cause == Cause::kNone);
    CHECK(scene.attempt.end().bad_nodes.empty());
  }
  SUBCASE("complaints that differ only in details in brackets are alike") {
    Scene other;
    other.hello(2, 4, "run: './check.sh' ended with 3 [n2 has no /data]");
    other.hello(0, 4, "run: './check.sh' ended with 3 [n1 has no /data]");
    CHECK(other.actions.printed.back().find("all 2 nodes fail the same check") !=
          std::string::npos);
  }
  SUBCASE("each node fails in its own way") {
    scene.hello(0, 4, "disk: cannot create a file in /tmp: No space left on device");
    CHECK(scene.attempt.end().first_failed->rank == 2);
    CHECK(scene.attempt.end().bad_nodes == std::vector<std::string>{"n2", "n1"});
  }
  SUBCASE("the other node has not reported a problem when the time to wait for it is over") {
    CHECK(*scene.attempt.next_deadline() == scene.now + NodeFitness::kWaitForOthers);
    scene.hello(0, 4);  // one of the two ranks on n1; the other may still report a problem
    scene.pass(NodeFitness::kWaitForOthers);
    CHECK(scene.attempt.end().first_failed->rank == 2);
    CHECK(scene.attempt.end().bad_nodes == std::vector<std::string>{"n2"});
  }
}

TEST_CASE(
    "during the check of collectives no hang is reported, and a node is unfit if its rank does not "
    "reach the check") {
  AttemptOptions options;
  options.hang_after = seconds(10);
  options.tries_collective = true;
  Scene scene(options);
  scene.all_join(4);
  scene.pass(seconds(50));
  CHECK(scene.actions.broadcast_count("end") == 0);
  SUBCASE("all ranks reach the collective, and it works") {
    for (int rank = 0; rank < 4; ++rank) scene.attempt.on_check_opened_device(rank);
    for (int rank = 0; rank < 4; ++rank) scene.attempt.on_checked(rank, scene.now);
    CHECK(scene.actions.last("checked") == Json{{"ranks", 4}, {"seconds", 50}});
    // From now on, a hang can be detected. It is reported after hang_after (10 s) and the 4 s in
    // which a heartbeat may still report output.
    CHECK(scene.attempt.next_deadline() == scene.now + seconds(14));
    return;
  }
  std::vector<std::string> unfit_nodes;
  auto reason = EndReason::kRankFailed;
  SUBCASE("one rank does not reach the collective") {
    for (const int rank : {0, 1, 3}) scene.attempt.on_check_opened_device(rank);
    scene.attempt.on_check_failed(0, "gloo: timed out", false, scene.now);
    unfit_nodes = {"n2"};
    CHECK(scene.actions.printed.back() ==
          "rank 2 on n2: n2 is not fit for the job: rank 2 did not reach the check of "
          "collectives (gloo: timed out); dlrun ends the other 3 ranks");
  }
  SUBCASE("one rank has no device") {
    scene.attempt.on_check_failed(3, "nccl: no GPU", true, scene.now);
    // Perhaps the other ranks have no device either.
    CHECK(scene.actions.broadcast_count("end") == 0);
    scene.pass(NodeFitness::kWaitForOthers);
    unfit_nodes = {"n2"};
  }
  SUBCASE("no rank has a device") {
    for (const int rank : {3, 2, 0})
      scene.attempt.on_check_failed(rank, "nccl: no GPU", true, scene.now);
    reason = EndReason::kPreflightFailed;
  }
  SUBCASE("all ranks reach the collective, and it fails") {
    for (int rank = 0; rank < 4; ++rank) scene.attempt.on_check_opened_device(rank);
    scene.attempt.on_check_failed(1, "nccl: timed out", false, scene.now);
    reason = EndReason::kPreflightFailed;
    CHECK(scene.actions.printed.back() ==
          "collectives do not work among the ranks, although all of them joined the check: nccl: "
          "timed out (health.preflight)");
  }
  CHECK(scene.attempt.end().code == 80);
  CHECK(scene.attempt.end().reason == reason);
  CHECK(scene.attempt.end().bad_nodes == unfit_nodes);
  CHECK(scene.actions.broadcast_count("end") == 1);
}

TEST_CASE(
    "a process counts as hung after it has been suspended (SIGSTOP) for hang_after, but not after "
    "3 s") {
  Scene scene({.hang_after = seconds(10)});
  scene.all_join(4);
  scene.attempt.on_program_suspended(2, seconds(3), scene.now);
  scene.attempt.on_output(scene.now);
  scene.pass(seconds(5));
  CHECK(scene.actions.broadcast_count("end") == 0);
  scene.attempt.on_program_suspended(2, seconds(10), scene.now);
  CHECK(scene.actions.broadcast_count("end") == 1);
  CHECK(scene.actions.printed.back() ==
        "rank 2 on n2: its process has been suspended for 10 s; dlrun ends the other 3 ranks");
  end_four_ranks(scene);
  REQUIRE(scene.attempt.is_over());
  CHECK(scene.attempt.end().cause == Cause::kHang);
  CHECK(scene.attempt.end().code == 79);
  CHECK(scene.attempt.end().first_failed->rank == 2);
  CHECK(scene.attempt.end().suspects == std::vector<std::string>{"n2"});
}

TEST_CASE("a program that reported progress and stopped reporting counts as hung") {
  Scene scene({.hang_after = seconds(10)});
  scene.all_join(4);
  scene.attempt.on_progress(0, {{"step", 7}}, scene.now);
  scene.pass(milliseconds(9'900));
  CHECK(scene.actions.broadcast_count("end") == 0);
  // An empty report differs from the report before it, so it counts as progress.
  scene.attempt.on_progress(0, nlohmann::ordered_json::object(), scene.now);
  scene.pass(milliseconds(9'900));
  CHECK(scene.actions.broadcast_count("end") == 0);
  scene.pass(milliseconds(200));
  CHECK(scene.actions.broadcast_count("end") == 1);
  CHECK(scene.actions.printed.back() ==
        "the run hangs: no progress was reported for 10 s (health.hang_after); the latest report "
        "was step 7");
  end_four_ranks(scene);
  CHECK(scene.attempt.end().cause == Cause::kHang);
  CHECK(scene.attempt.end().step == 7);
  CHECK_FALSE(scene.attempt.end().first_failed);
}

TEST_CASE("several nodes that are silent when the run hangs are named as one list") {
  Scene scene({.hang_after = seconds(10)});
  scene.all_join(8);
  scene.attempt.on_progress(0, {{"step", 7}}, scene.now);
  for (int second = 1; second <= 10; ++second) {
    for (const int rank : {0, 1}) scene.attempt.on_heard(rank, scene.now);
    scene.pass(seconds(1));
  }
  CHECK(scene.attempt.end().message.ends_with(
      "; no message from n[2-4] for 10 s; they count as lost"));
  CHECK(scene.attempt.end().bad_nodes == std::vector<std::string>{"n2", "n3", "n4"});
  CHECK(scene.attempt.end().first_failed->rank == 2);
}

TEST_CASE("a node that is silent when the run hangs counts as lost, long before Slurm reports it") {
  Scene scene({.hang_after = seconds(10)});
  scene.all_join(4);
  scene.attempt.on_progress(0, {{"step", 7}}, scene.now);
  const auto beat = [&](std::initializer_list<int> ranks) {
    for (const int rank : ranks) scene.attempt.on_heard(rank, scene.now);
  };
  SUBCASE("all of n2 is silent") {
    for (int second = 1; second < 10; ++second) {
      if (second % 3 == 0) beat({0, 1});
      scene.pass(seconds(1));
    }
    CHECK(scene.actions.broadcast_count("end") == 0);
    beat({0, 1});
    scene.pass(seconds(1));
    CHECK(scene.actions.printed.back() ==
          "the run hangs: no progress was reported for 10 s (health.hang_after); the latest report "
          "was step 7; no message from n2 for 10 s; it counts as lost");
    for (const int rank : {0, 1}) scene.attempt.on_exit(rank, {143, SIGTERM, {}}, scene.now);
    scene.attempt.on_step_end(137, "", scene.now);
    scene.pass(seconds(2));
    REQUIRE(scene.attempt.is_over());
    CHECK(scene.attempt.end().cause == Cause::kNodeFailure);
    CHECK(scene.attempt.end().reason == EndReason::kHang);
    CHECK(scene.attempt.end().bad_nodes == std::vector<std::string>{"n2"});
    CHECK(scene.actions.last("attempt_end")["lost_nodes"] == Json{"n2"});
    CHECK(scene.attempt.end().first_failed->rank == 2);
  }
  SUBCASE(
      "n2 has not been silent for long: the verdict waits for late heartbeats, without polling") {
    scene.pass(seconds(5));
    beat({0, 1, 2, 3});
    scene.pass(milliseconds(4'900));
    beat({0, 1});
    scene.pass(milliseconds(100));
    CHECK(scene.actions.broadcast_count("end") == 0);
    CHECK(*scene.attempt.next_deadline() > scene.now);
    scene.pass(milliseconds(2'500));
    CHECK(scene.attempt.end().bad_nodes == std::vector<std::string>{"n2"});
  }
  SUBCASE(
      "only one of the node's two agents is silent, or all agents are: no node counts as lost") {
    bool all_are_silent = false;
    SUBCASE("one agent") {}
    SUBCASE("all agents") {
      all_are_silent = true;
    }
    scene.pass(seconds(9));
    if (!all_are_silent) beat({0, 1, 3});
    scene.pass(seconds(1));
    CHECK(scene.actions.broadcast_count("end") == 1);
    CHECK(scene.attempt.end().bad_nodes.empty());
    CHECK(scene.attempt.end().reason == EndReason::kHang);
    CHECK(scene.attempt.end().first_failed.has_value() == !all_are_silent);
    if (!all_are_silent) {
      CHECK(scene.attempt.end().first_failed->rank == 2);
      CHECK(scene.attempt.end().message.ends_with("; no message from rank 2 on n2 for 10 s"));
    }
  }
  SUBCASE("one agent is silent, and all other ranks have ended: the silent rank is named") {
    beat({2});
    scene.pass(seconds(5));
    for (const int rank : {0, 1, 3}) {
      beat({rank});
      scene.attempt.on_exit(rank, {}, scene.now);
    }
    scene.pass(seconds(9));
    CHECK(scene.attempt.end().first_failed->rank == 2);
  }
}

TEST_CASE("a point of a sweep that stops early ends all ranks, and its attempt is successful") {
  Scene scene;
  scene.hello(0, 4);
  scene.attempt.on_stop_early("before the programs run", scene.now);  // has no effect
  CHECK(scene.actions.broadcast_count("end") == 0);
  for (int rank = 1; rank < 4; ++rank) scene.hello(rank, 4);
  scene.attempt.on_stop_early("stopped early: the best loss at epoch 6 is 7", scene.now);
  CHECK(scene.actions.broadcast_count("end") == 1);
  CHECK(scene.actions.printed.back() == "stopped early: the best loss at epoch 6 is 7");
  end_four_ranks(scene);
  REQUIRE(scene.attempt.is_over());
  CHECK(scene.attempt.end().code == 0);
  CHECK(scene.attempt.end().reason == EndReason::kStoppedEarly);
  CHECK(scene.attempt.end().cause == Cause::kNone);
  CHECK_FALSE(scene.attempt.end().first_failed.has_value());
  CHECK(scene.actions.last("attempt_end")["reason"] == "stopped_early");
}

TEST_CASE(
    "a rehearsal ends successfully after its time, and a rank that fails earlier ends it as a "
    "failure") {
  AttemptOptions options;
  options.rehearsal = seconds(120);
  Scene scene(options);
  scene.all_join(4);
  scene.pass(seconds(119));
  CHECK(scene.actions.count("attempt_end") == 0);
  CHECK(scene.attempt.next_deadline() <= scene.now + seconds(1));
  scene.pass(seconds(1));
  CHECK(scene.actions.printed.back().find("the ranks ran for 120 s") != std::string::npos);
  end_four_ranks(scene);
  scene.pass(seconds(1));
  CHECK(scene.actions.last("attempt_end")["reason"] == "rehearsed");
  CHECK(scene.actions.last("attempt_end")["code"] == 0);

  Scene failing(options);
  failing.all_join(4);
  failing.attempt.on_exit(2, {3, 0, {}}, failing.now);
  failing.pass(seconds(130));
  end_four_ranks(failing);
  failing.pass(seconds(1));
  CHECK(failing.actions.last("attempt_end")["reason"] == "rank_failed");
}

TEST_CASE(
    "the time of a rehearsal begins when the programs start, after the check of collectives") {
  AttemptOptions options;
  options.rehearsal = seconds(10);
  options.tries_collective = true;
  Scene scene(options);
  scene.all_join(4);
  scene.pass(seconds(50));
  CHECK(scene.actions.broadcast_count("end") == 0);
  for (int rank = 0; rank < 4; ++rank) scene.attempt.on_checked(rank, scene.now);
  scene.pass(seconds(9));
  CHECK(scene.actions.broadcast_count("end") == 0);
  scene.pass(seconds(1));
  CHECK(scene.actions.broadcast_count("end") == 1);
  CHECK(scene.attempt.end().reason == EndReason::kRehearsed);
}

TEST_CASE("without hang_after, a program that reports nothing never counts as hung") {
  Scene scene;
  scene.all_join(4);
  scene.pass(std::chrono::hours(1000));
  CHECK(scene.actions.broadcast_count("end") == 0);
}

TEST_CASE(
    "a node with a silent agent is suspect, and the whole node counts as silent only if all "
    "its ranks are lost") {
  Scene scene;
  scene.all_join(4);
  scene.attempt.on_lost(3, "its agent has sent nothing for 30 s", scene.now);
  bool both_are_silent = false;
  SUBCASE("both agents") {
    scene.attempt.on_lost(2, "its agent has sent nothing for 30 s", scene.now);
    both_are_silent = true;
  }
  SUBCASE("one agent") {
    scene.attempt.on_exit(2, {143, SIGTERM, {}}, scene.now);
  }
  scene.pass(seconds(1));
  for (const int rank : {0, 1}) scene.attempt.on_exit(rank, {143, SIGTERM, {}}, scene.now);
  scene.attempt.on_step_end(137, "", scene.now);
  REQUIRE(scene.attempt.is_over());
  CHECK(scene.attempt.end().suspects == std::vector<std::string>{"n2"});
  CHECK(scene.attempt.end().is_whole_node_silent == both_are_silent);
}

}  // namespace
}  // namespace dlrun::agent
