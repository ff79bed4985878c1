// Tests how ranks join and start, and how an attempt ends when ranks or their step end.
#include <signal.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/agent/intervals.h"
#include "tests/unit/attempt_scene.h"

namespace dlrun::agent {
namespace {

TEST_CASE("the ranks start when the last one has joined, with rank 0's address and port") {
  Scene scene;
  for (const int rank : {3, 0, 1}) scene.hello(rank, 4);
  CHECK(scene.actions.sent.empty());
  scene.pass(milliseconds(250));
  scene.hello(2, 4);
  REQUIRE(scene.actions.sent.size() == 4);
  CHECK(scene.actions.sent[3].second["type"] == "start");
  CHECK(scene.actions.sent[3].second["addr"] == "10.0.0.2");
  CHECK(scene.actions.sent[3].second["master_addr"] == "10.0.0.1");
  CHECK(scene.actions.sent[3].second["master_port"] == 29500);
  CHECK(scene.actions.last("joined") == Json{{"ranks", 4}, {"hosts", "n[1-2]"}, {"seconds", 0.25}});
}

TEST_CASE("the start message asks ranks to mark their standard error only if marks_stderr is set") {
  for (const bool marks_stderr : {false, true}) {
    AttemptOptions options;
    options.marks_stderr = marks_stderr;
    Scene scene(options);
    scene.all_join(2);
    REQUIRE(scene.actions.sent.size() == 2);
    CHECK(scene.actions.sent[0].second["marked"] == marks_stderr);
  }
}

TEST_CASE("an attempt succeeds only if every rank has an exit record with code 0") {
  Scene scene;
  scene.all_join(4);
  for (int rank = 0; rank < 3; ++rank) scene.attempt.on_exit(rank, {}, scene.now);
  CHECK_FALSE(scene.attempt.is_over());
  SUBCASE("all four ranks") {
    scene.attempt.on_exit(3, {}, scene.now);
    CHECK_FALSE(scene.attempt.is_over());
    scene.attempt.on_step_end(0, "", scene.now);
    REQUIRE(scene.attempt.is_over());
    CHECK(scene.attempt.end().code == 0);
    CHECK(scene.attempt.end().reason == EndReason::kOk);
    CHECK(scene.attempt.end().message == "all 4 ranks ended with 0");
  }
  SUBCASE("three ranks, and srun exits with 0") {
    scene.attempt.on_step_end(0, "", scene.now);
    scene.pass(seconds(3));
    REQUIRE(scene.attempt.is_over());
    CHECK(scene.attempt.end().code != 0);
    CHECK(scene.attempt.end().first_failed->rank == 3);
  }
  SUBCASE("all four ranks, and srun exits with 143: the records count, with a warning") {
    scene.attempt.on_exit(3, {}, scene.now);
    scene.attempt.on_step_end(143, "srun: something", scene.now);
    CHECK(scene.attempt.end().code == 0);
    CHECK(scene.actions.count("warning") == 1);
  }
}

TEST_CASE(
    "the first failed rank is named with host and signal, the attempt gets its code, and the other "
    "ranks are ended") {
  Scene scene;
  scene.all_join(8);
  scene.attempt.on_exit(3, {137, SIGKILL, ""}, scene.now);
  REQUIRE(scene.actions.printed.size() == 1);
  CHECK(scene.actions.printed[0] ==
        "rank 3 on n2 was killed by SIGKILL; dlrun ends the other 7 ranks");
  CHECK(scene.actions.broadcast_count("end") == 1);
  scene.attempt.on_exit(5, {143, SIGTERM, ""}, scene.now);
  scene.attempt.on_exit(6, {1, 0, ""}, scene.now);
  for (const int rank : {0, 1, 2, 4, 7}) scene.attempt.on_exit(rank, {137, SIGKILL, ""}, scene.now);
  scene.attempt.on_step_end(1, "", scene.now);
  REQUIRE(scene.attempt.is_over());
  CHECK(scene.attempt.end().code == 137);
  CHECK(scene.attempt.end().reason == EndReason::kRankFailed);
  CHECK(scene.actions.last("attempt_end")["first_failed"] ==
        Json{{"rank", 3}, {"host", "n2"}, {"code", 137}, {"signal", "SIGKILL"}});
  // Rank 6 failed by itself. The other ranks were ended because of the first failure.
  CHECK(scene.actions.count("rank_failed") == 2);
  CHECK(scene.actions.last("rank_failed")["rank"] == 6);
}

TEST_CASE("the message says whether a rank exited with a code or its command does not exist") {
  Scene scene;
  scene.all_join(2);
  SUBCASE("the rank exits with a code") {
    scene.attempt.on_exit(1, {3, 0, ""}, scene.now);
    scene.pass(Attempt::kCulpritWait);
    CHECK(scene.actions.printed[0] == "rank 1 on n1 exited with code 3; dlrun ends the other rank");
  }
  SUBCASE("the command does not exist") {
    scene.attempt.on_exit(0, {127, 0, "python3: command not found (PATH=/bin)"}, scene.now);
    CHECK(scene.actions.printed[0] ==
          "rank 0 on n1: python3: command not found (PATH=/bin); dlrun ends the other rank");
  }
}

TEST_CASE(
    "a rank that exits because another rank died is not blamed, even if its exit is reported "
    "first") {
  Scene scene;
  scene.all_join(4);
  const RankEnd peer_gone{
      .code = 68, .error = "rank 2 is gone", .ended_by_itself = true, .blamed_rank = -1};
  const RankEnd exit_with_1{.code = 1, .error = "", .ended_by_itself = true};
  scene.attempt.on_exit(0, peer_gone, scene.now);
  CHECK(scene.actions.broadcast_count("end") == 1);  // lead still ends the other ranks
  CHECK(scene.actions.printed.empty());
  SUBCASE("rank 2 was killed") {
    scene.attempt.on_exit(1, exit_with_1, scene.now);
    scene.attempt.on_exit(2, {137, SIGKILL, "", true}, scene.now);
    CHECK(scene.attempt.end().code == 137);
    CHECK(scene.actions.last("rank_failed")["signal"] == "SIGKILL");
  }
  SUBCASE("rank 2 was killed, and its record comes after a second") {
    scene.pass(milliseconds(1000));
    scene.attempt.on_exit(2, {137, SIGKILL, "", true}, scene.now);
    CHECK(scene.attempt.end().code == 137);
  }
  SUBCASE("rank 2 exited with a code") {
    scene.attempt.on_exit(2, exit_with_1, scene.now);
    scene.attempt.on_exit(1, {143, SIGTERM, "", false}, scene.now);
    scene.pass(Attempt::kCulpritWait);
    CHECK(scene.attempt.end().code == 1);
  }
  SUBCASE("the agent of rank 2 is lost") {
    scene.attempt.on_lost(2, "the connection was closed", scene.now);
    scene.pass(milliseconds(200));
    CHECK(scene.actions.printed.empty());
    scene.attempt.on_task_end(2, "n2", 137, SIGKILL, scene.now);
    CHECK(scene.attempt.end().code == 137);
  }
  REQUIRE(scene.actions.printed.size() == 1);
  CHECK(scene.actions.printed[0].starts_with("rank 2 on n2 "));
  CHECK(scene.attempt.end().first_failed->rank == 2);
}

TEST_CASE("a rank that was killed because the attempt ends is not the cause of that end") {
  Scene scene;
  scene.all_join(4);
  scene.attempt.on_exit(0, {1, 0, "", true}, scene.now);
  scene.attempt.on_exit(2, {137, SIGKILL, "", false}, scene.now);
  scene.pass(Attempt::kCulpritWait);
  CHECK(scene.attempt.end().first_failed->rank == 0);
}

TEST_CASE("if all ranks end because of one failed rank, that rank is named, with its message") {
  Scene scene;
  scene.all_join(4);
  for (const int rank : {3, 1})
    scene.attempt.on_exit(rank, {74, 0, "ckpt: No space left on device", true, 2}, scene.now);
  REQUIRE(scene.actions.printed.size() == 1);
  CHECK(scene.actions.printed[0] ==
        "rank 2 on n2: ckpt: No space left on device; dlrun ends the other 3 ranks");
  CHECK(scene.actions.last("rank_failed")["pid"] == 1002);
}

TEST_CASE(
    "if a signal ends srun, srun's death is the cause, whether it or the loss of the ranks is "
    "reported first") {
  Scene scene({.job_nodes = "n[1-2]"});
  scene.all_join(4);
  SUBCASE("the death of srun is reported first") {
    scene.attempt.on_srun_killed(SIGKILL, scene.now);
    for (const int rank : {1, 0, 2, 3})
      scene.attempt.on_lost(rank, "the connection was closed", scene.now);
  }
  SUBCASE("the losses of the ranks are reported first") {
    for (const int rank : {1, 0, 2, 3})
      scene.attempt.on_lost(rank, "the connection was closed", scene.now);
    scene.attempt.on_srun_killed(SIGKILL, scene.now);
  }
  scene.attempt.on_step_end(137, "", scene.now);
  REQUIRE(scene.attempt.is_over());
  const auto& end = scene.attempt.end();
  CHECK(end.reason == EndReason::kLauncherLost);
  CHECK(end.cause == Cause::kFailure);
  CHECK_FALSE(end.first_failed);
  CHECK(end.suspects.empty());  // the nodes are healthy
  CHECK(scene.actions.printed ==
        std::vector<std::string>{"srun was killed by SIGKILL; dlrun ends all ranks"});
}

TEST_CASE(
    "a lost agent is named with the signal of the step's report, whether the report comes before "
    "or after the loss") {
  Scene scene;
  scene.all_join(4);
  const auto report_signal = [&] { scene.attempt.on_task_end(2, "n2", 139, SIGSEGV, scene.now); };
  const auto break_connection = [&] {
    scene.attempt.on_lost(2, "the connection was closed", scene.now);
  };
  SUBCASE("the report comes before the loss") {
    report_signal();
    CHECK(scene.actions.printed.empty());  // the rank's own report may still be on its way
    break_connection();
  }
  SUBCASE("the report comes after the loss") {
    break_connection();
    CHECK(scene.actions.broadcast_count("end") == 1);  // lead still ends the other ranks
    CHECK(scene.actions.printed.empty());
    report_signal();
  }
  CHECK(
      scene.actions.printed ==
      std::vector<std::string>{"rank 2 on n2 was killed by SIGSEGV; dlrun ends the other 3 ranks"});
  CHECK(scene.attempt.end().code == 139);
}

TEST_CASE("a lost agent without any other report is named within a second, with code 137") {
  Scene scene;
  scene.all_join(4);
  scene.attempt.on_lost(1, "the connection was closed", scene.now);
  scene.pass(seconds(1));
  REQUIRE(scene.actions.printed.size() == 1);
  CHECK(scene.actions.printed[0].starts_with(
      "rank 1 on n1: its agent is lost without an exit record"));
  CHECK(scene.attempt.end().code == 137);
}

TEST_CASE("a step that does not end is stopped, then killed") {
  Scene scene;
  scene.all_join(2);
  scene.attempt.on_exit(0, {1, 0, ""}, scene.now);
  CHECK(scene.actions.stop_step_calls.empty());
  scene.pass(kStepStoppedAfter);
  CHECK(scene.actions.stop_step_calls == std::vector<bool>{false});
  scene.pass(seconds(2));
  CHECK(scene.actions.stop_step_calls == std::vector<bool>{false, true});
  scene.pass(seconds(9));
  CHECK(scene.actions.stop_step_calls.size() == 2);
}

TEST_CASE("a second TERM ends the attempt within 5 s, even if neither the step nor the ranks end") {
  Scene scene;
  scene.all_join(4);
  scene.attempt.on_lead_signal(SIGTERM, scene.now);
  scene.pass(seconds(20));
  scene.pass(seconds(20));
  CHECK_FALSE(scene.attempt.is_over());
  scene.attempt.on_lead_signal(SIGTERM, scene.now);
  scene.pass(milliseconds(4900));
  CHECK_FALSE(scene.attempt.is_over());
  scene.pass(milliseconds(200));
  REQUIRE(scene.attempt.is_over());
  CHECK(scene.attempt.end().code == 143);
  CHECK(scene.attempt.end().message ==
        "ended by SIGTERM; the step has not ended, but lead no longer waits for it");
}

TEST_CASE(
    "a lead with too few file descriptors for its ranks reports this once, and the run does not "
    "start again") {
  Scene scene;
  scene.hello(0, 4);
  scene.attempt.on_too_few_descriptors("too few open files", scene.now);
  scene.attempt.on_exit(0, {143, SIGTERM, {}}, scene.now);
  scene.attempt.on_step_end(1, "", scene.now);
  scene.pass(seconds(3));
  REQUIRE(scene.attempt.is_over());
  CHECK(scene.attempt.end().reason == EndReason::kLaunchFailed);
  CHECK(scene.attempt.end().code == 77);
  CHECK(scene.attempt.end().cause == Cause::kNone);
  CHECK(scene.actions.printed == std::vector<std::string>{"too few open files"});
}

TEST_CASE("ranks that do not join in time are named by rank and node") {
  Scene scene({.join_timeout = seconds(5), .job_nodes = "n[1-4]"});
  for (const int rank : {0, 1, 3}) scene.hello(rank, 8);
  scene.pass(seconds(4));
  CHECK(scene.actions.printed.empty());
  scene.pass(seconds(1));
  REQUIRE(scene.actions.printed.size() == 1);
  CHECK(
      scene.actions.printed[0] ==
      "5 of 8 ranks did not connect to lead within 5 s: ranks 2, 4-7; missing on n2 (1 of its 2), "
      "n[3-4] (all)");
  CHECK(scene.actions.last("missing")["ranks"] == Json{2, 4, 5, 6, 7});
  scene.attempt.on_lost(0, "", scene.now);
  scene.attempt.on_lost(1, "", scene.now);
  scene.attempt.on_lost(3, "", scene.now);
  scene.attempt.on_step_end(1, "", scene.now);
  CHECK(scene.attempt.end().code == 76);
  CHECK(scene.attempt.end().reason == EndReason::kJoinTimeout);
}

TEST_CASE("if no rank joins in time, the step is stopped immediately, and its nodes are named") {
  Scene scene({.join_timeout = seconds(5), .job_nodes = "n[1-4]"});
  scene.pass(seconds(5));
  CHECK(scene.actions.printed[0] ==
        "no rank connected to lead within 5 s; missing on n[1-4] (all)");
  CHECK(scene.actions.stop_step_calls == std::vector<bool>{false});
}

TEST_CASE("the error of a step that cannot be launched quotes srun") {
  Scene scene;
  scene.attempt.on_step_end(1, "srun: error: Unable to create step", scene.now);
  REQUIRE(scene.attempt.is_over());
  CHECK(scene.attempt.end().code == 77);
  CHECK(scene.attempt.end().reason == EndReason::kLaunchFailed);
  CHECK(scene.attempt.end().message.find("srun: error: Unable to create step") !=
        std::string::npos);
}

TEST_CASE("a step that cannot be launched because Slurm is ending the job counts as cancelled") {
  Scene scene;
  scene.attempt.on_step_end(
      1, "srun: error: Unable to create step for job 8: Job/step already completing or completed",
      scene.now);
  REQUIRE(scene.attempt.is_over());
  CHECK(scene.attempt.end().is_cancelled);
  CHECK(scene.attempt.end().cause == Cause::kNone);
}

TEST_CASE("a command line that starts no rank agents is an error that names `dlrun-agent rank`") {
  Scene scene;
  scene.attempt.on_step_end(0, "", scene.now);
  CHECK(scene.attempt.end().code == 77);
  CHECK(scene.attempt.end().message.find("dlrun-agent rank") != std::string::npos);
}

TEST_CASE("an agent that fails before its hello is a failed rank, with its code") {
  Scene scene;
  scene.hello(0, 2);
  scene.attempt.on_task_end(1, "n1", 64, 0, scene.now);
  scene.pass(Attempt::kCulpritWait);
  CHECK(scene.actions.printed ==
        std::vector<std::string>{"rank 1 on n1 exited with code 64; dlrun ends the other rank"});
  CHECK(scene.attempt.end().code == 64);
}

TEST_CASE(
    "lead accepts no rank twice and none beyond the world size, and reports a rank with another "
    "world size") {
  Scene scene;
  scene.hello(0, 4);
  CHECK(scene.attempt.may_join(1));
  CHECK_FALSE(scene.attempt.may_join(0));
  CHECK_FALSE(scene.attempt.may_join(4));
  scene.hello(1, 8);
  REQUIRE(scene.actions.printed.size() == 1);
  CHECK(scene.actions.printed[0].find("rank 1 of 8; lead took it for rank 1 of 4") !=
        std::string::npos);
}

TEST_CASE(
    "if one of ten thousand ranks is killed and all agents are lost, a single failed rank is "
    "recorded") {
  Scene scene;
  scene.all_join(10'000);
  scene.attempt.on_exit(77, {137, SIGKILL, ""}, scene.now);
  for (int rank = 0; rank < 10'000; ++rank) scene.attempt.on_lost(rank, "", scene.now);
  scene.attempt.on_step_end(1, "", scene.now);
  CHECK(scene.attempt.is_over());
  CHECK(scene.actions.count("rank_failed") == 1);
}

TEST_CASE("a hello is refused if it has no world, or a rank or size that is impossible") {
  Json message{{"host", "n1"}, {"addr", "10.0.0.1"}, {"pid", 1}, {"port", 0}};
  CHECK_FALSE(Hello::of(message));
  message["world"] = {{"rank", 4},       {"size", 4},      {"local_rank", 0},
                      {"local_size", 1}, {"node_rank", 0}, {"nnodes", 1}};
  CHECK_FALSE(Hello::of(message));
  message["world"]["rank"] = 3;
  CHECK(Hello::of(message)->world.rank == 3);
  message["world"]["size"] = 1e300;
  CHECK_FALSE(Hello::of(message));
}

}  // namespace
}  // namespace dlrun::agent
