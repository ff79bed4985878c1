#include <signal.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/attempt_scene.h"

namespace dlrun::agent {
namespace {

TEST_CASE("the ranks start when the last has said hello, with rank 0's address and port") {
  Scene scene;
  for (const int rank : {3, 0, 1}) scene.hello(rank, 4);
  CHECK(scene.notes.sent.empty());
  scene.pass(milliseconds(250));
  scene.hello(2, 4);
  REQUIRE(scene.notes.sent.size() == 4);
  CHECK(scene.notes.sent[3].second["type"] == "start");
  CHECK(scene.notes.sent[3].second["addr"] == "10.0.0.2");
  CHECK(scene.notes.sent[3].second["master_addr"] == "10.0.0.1");
  CHECK(scene.notes.sent[3].second["master_port"] == 29500);
  CHECK(scene.notes.last("joined") == Json{{"ranks", 4}, {"hosts", "n[1-2]"}, {"seconds", 0.25}});
}

TEST_CASE("the attempt succeeds only with an exit record of 0 of every rank") {
  Scene scene;
  scene.all_join(4);
  for (int rank = 0; rank < 3; ++rank) scene.attempt.on_exit(rank, {}, scene.now);
  CHECK_FALSE(scene.attempt.is_over());
  SUBCASE("all four") {
    scene.attempt.on_exit(3, {}, scene.now);
    CHECK_FALSE(scene.attempt.is_over());
    scene.attempt.on_step_end(0, "", scene.now);
    REQUIRE(scene.attempt.is_over());
    CHECK(scene.attempt.end().code == 0);
    CHECK(scene.attempt.end().reason == "ok");
    CHECK(scene.attempt.end().message == "all 4 ranks ended with 0");
  }
  SUBCASE("three, and srun says 0") {
    scene.attempt.on_step_end(0, "", scene.now);
    scene.pass(seconds(3));
    REQUIRE(scene.attempt.is_over());
    CHECK(scene.attempt.end().code != 0);
    CHECK(scene.attempt.end().first_failed->rank == 3);
  }
  SUBCASE("all four, and srun lies: the records hold, and it is written down") {
    scene.attempt.on_exit(3, {}, scene.now);
    scene.attempt.on_step_end(143, "srun: something", scene.now);
    CHECK(scene.attempt.end().code == 0);
    CHECK(scene.notes.count("warning") == 1);
  }
}

TEST_CASE(
    "the first failed rank is named with host and signal, its code is the attempt's, the others "
    "are ended") {
  Scene scene;
  scene.all_join(8);
  scene.attempt.on_exit(3, {137, SIGKILL, ""}, scene.now);
  REQUIRE(scene.notes.said.size() == 1);
  CHECK(scene.notes.said[0] == "rank 3 on n2 was killed by SIGKILL; the other 7 ranks are ended");
  CHECK(scene.notes.broadcasts_of("end") == 1);
  scene.attempt.on_exit(5, {143, SIGTERM, ""}, scene.now);
  scene.attempt.on_exit(6, {1, 0, ""}, scene.now);
  for (const int rank : {0, 1, 2, 4, 7}) scene.attempt.on_exit(rank, {137, SIGKILL, ""}, scene.now);
  scene.attempt.on_step_end(1, "", scene.now);
  REQUIRE(scene.attempt.is_over());
  CHECK(scene.attempt.end().code == 137);
  CHECK(scene.attempt.end().reason == "rank_failed");
  CHECK(scene.notes.last("attempt_end")["first_failed"] ==
        Json{{"rank", 3}, {"host", "n2"}, {"code", 137}, {"signal", "SIGKILL"}});
  // Rank 6 failed by itself. The other ranks were ended because of the first failure.
  CHECK(scene.notes.count("rank_failed") == 2);
  CHECK(scene.notes.last("rank_failed")["rank"] == 6);
}

TEST_CASE("an exit code and a command that is not there are said in their own words") {
  Scene scene;
  scene.all_join(2);
  SUBCASE("code") {
    scene.attempt.on_exit(1, {3, 0, ""}, scene.now);
    scene.pass(Attempt::kCulpritWait);
    CHECK(scene.notes.said[0] == "rank 1 on n1 exited with code 3; the other rank is ended");
  }
  SUBCASE("error") {
    scene.attempt.on_exit(0, {127, 0, "python3: command not found (PATH=/bin)"}, scene.now);
    CHECK(scene.notes.said[0] ==
          "rank 0 on n1: python3: command not found (PATH=/bin); the other rank is ended");
  }
}

TEST_CASE(
    "a rank that leaves because another has died is not blamed, though it is heard of first") {
  Scene scene;
  scene.all_join(4);
  const RankEnd gone{68, 0, "rank 2 is gone", true, -1};
  const RankEnd left{1, 0, "", true};
  scene.attempt.on_exit(0, gone, scene.now);
  CHECK(scene.notes.broadcasts_of("end") == 1);  // the other ranks are ended at once all the same
  CHECK(scene.notes.said.empty());
  SUBCASE("killed") {
    scene.attempt.on_exit(1, left, scene.now);
    scene.attempt.on_exit(2, {137, SIGKILL, "", true}, scene.now);
    CHECK(scene.attempt.end().code == 137);
    CHECK(scene.notes.last("rank_failed")["signal"] == "SIGKILL");
  }
  SUBCASE("left with a code of its own") {
    scene.attempt.on_exit(2, left, scene.now);
    scene.attempt.on_exit(1, {143, SIGTERM, "", false}, scene.now);
    scene.pass(Attempt::kCulpritWait);
    CHECK(scene.attempt.end().code == 1);
  }
  SUBCASE("its agent is lost") {
    scene.attempt.on_lost(2, "the connection was closed", scene.now);
    scene.pass(Attempt::kCulpritWait);
    CHECK(scene.notes.said.empty());
    scene.attempt.on_task_end(2, "n2", 137, SIGKILL, scene.now);
    CHECK(scene.attempt.end().code == 137);
  }
  REQUIRE(scene.notes.said.size() == 1);
  CHECK(scene.notes.said[0].starts_with("rank 2 on n2 "));
  CHECK(scene.attempt.end().first_failed->rank == 2);
}

TEST_CASE("a rank that was killed because the attempt ends is not taken for its cause") {
  Scene scene;
  scene.all_join(4);
  scene.attempt.on_exit(0, {1, 0, "", true}, scene.now);
  scene.attempt.on_exit(2, {137, SIGKILL, "", false}, scene.now);
  scene.pass(Attempt::kCulpritWait);
  CHECK(scene.attempt.end().first_failed->rank == 0);
}

TEST_CASE("where all ranks end for the failure of one, that one is named, with its words") {
  Scene scene;
  scene.all_join(4);
  for (const int rank : {3, 1})
    scene.attempt.on_exit(rank, {74, 0, "ckpt: No space left on device", true, 2}, scene.now);
  REQUIRE(scene.notes.said.size() == 1);
  CHECK(scene.notes.said[0] ==
        "rank 2 on n2: ckpt: No space left on device; the other 3 ranks are ended");
  CHECK(scene.notes.last("rank_failed")["pid"] == 1002);
}

TEST_CASE("a launcher that a signal ends is why its ranks are gone, whoever is heard of first") {
  Scene scene({.job_nodes = "n[1-2]"});
  scene.all_join(4);
  SUBCASE("the launcher") {
    scene.attempt.on_launcher_killed(SIGKILL, scene.now);
    for (const int rank : {1, 0, 2, 3})
      scene.attempt.on_lost(rank, "the connection was closed", scene.now);
  }
  SUBCASE("its ranks") {
    for (const int rank : {1, 0, 2, 3})
      scene.attempt.on_lost(rank, "the connection was closed", scene.now);
    scene.attempt.on_launcher_killed(SIGKILL, scene.now);
  }
  scene.attempt.on_step_end(137, "", scene.now);
  REQUIRE(scene.attempt.is_over());
  const auto& end = scene.attempt.end();
  CHECK(end.reason == "launcher_lost");
  CHECK(end.cause == Cause::kFailure);
  CHECK_FALSE(end.first_failed);
  CHECK(end.suspects.empty());  // healthy nodes: Slurm need not be asked about them
  CHECK(scene.notes.said ==
        std::vector<std::string>{"the step's launcher was killed by SIGKILL; its ranks are ended"});
}

TEST_CASE(
    "how a lost agent died is taken from the launcher, before or after the connection breaks") {
  Scene scene;
  scene.all_join(4);
  const auto told = [&] { scene.attempt.on_task_end(2, "n2", 139, SIGSEGV, scene.now); };
  const auto lost = [&] { scene.attempt.on_lost(2, "the connection was closed", scene.now); };
  SUBCASE("before") {
    told();
    CHECK(scene.notes.said.empty());  // the rank's own report may still be on its way
    lost();
  }
  SUBCASE("after") {
    lost();
    CHECK(scene.notes.broadcasts_of("end") == 1);  // the other ranks are ended at once all the same
    CHECK(scene.notes.said.empty());
    told();
  }
  CHECK(scene.notes.said == std::vector<std::string>{
                                "rank 2 on n2 was killed by SIGSEGV; the other 3 ranks are ended"});
  CHECK(scene.attempt.end().code == 139);
}

TEST_CASE(
    "a lost agent of which nobody says more is named within a second, with the code of a kill") {
  Scene scene;
  scene.all_join(4);
  scene.attempt.on_lost(1, "the connection was closed", scene.now);
  scene.pass(seconds(1));
  REQUIRE(scene.notes.said.size() == 1);
  CHECK(scene.notes.said[0].starts_with("rank 1 on n1: its agent is lost without an exit record"));
  CHECK(scene.attempt.end().code == 137);
}

TEST_CASE("a step that does not end is stopped, then killed") {
  Scene scene;
  scene.all_join(2);
  scene.attempt.on_exit(0, {1, 0, ""}, scene.now);
  CHECK(scene.notes.stops.empty());
  scene.pass(Attempt::kMercy);
  CHECK(scene.notes.stops == std::vector<bool>{false});
  scene.pass(seconds(2));
  CHECK(scene.notes.stops == std::vector<bool>{false, true});
  scene.pass(seconds(9));
  CHECK(scene.notes.stops.size() == 2);
}

TEST_CASE("two TERMs end the attempt within 5 s, though neither the step nor the ranks ever end") {
  Scene scene;
  scene.all_join(4);
  scene.attempt.on_own_signal(SIGTERM, scene.now);
  scene.pass(seconds(20));
  scene.pass(seconds(20));
  CHECK_FALSE(scene.attempt.is_over());
  scene.attempt.on_own_signal(SIGTERM, scene.now);
  scene.pass(milliseconds(4900));
  CHECK_FALSE(scene.attempt.is_over());
  scene.pass(milliseconds(200));
  REQUIRE(scene.attempt.is_over());
  CHECK(scene.attempt.end().code == 143);
  CHECK(scene.attempt.end().message ==
        "ended by SIGTERM; the step does not end and is left behind");
}

TEST_CASE(
    "lead without descriptors for its ranks says so at once, and does not start again for that") {
  Scene scene;
  scene.hello(0, 4);
  scene.attempt.on_full("too few open files", scene.now);
  scene.attempt.on_exit(0, {143, SIGTERM, {}}, scene.now);
  scene.attempt.on_step_end(1, "", scene.now);
  scene.pass(seconds(3));
  REQUIRE(scene.attempt.is_over());
  CHECK(scene.attempt.end().reason == "launch_failed");
  CHECK(scene.attempt.end().code == 77);
  CHECK(scene.attempt.end().cause == Cause::kNone);
  CHECK(scene.notes.said == std::vector<std::string>{"too few open files"});
}

TEST_CASE("ranks that do not join in time are named by rank and node") {
  Scene scene({.join_timeout = seconds(5), .job_nodes = "n[1-4]"});
  for (const int rank : {0, 1, 3}) scene.hello(rank, 8);
  scene.pass(seconds(4));
  CHECK(scene.notes.said.empty());
  scene.pass(seconds(1));
  REQUIRE(scene.notes.said.size() == 1);
  CHECK(scene.notes.said[0] ==
        "5 of 8 ranks did not say hello within 5 s: ranks 2, 4-7; missing on n2 (1 of its 2), "
        "n[3-4] (all)");
  CHECK(scene.notes.last("missing")["ranks"] == Json{2, 4, 5, 6, 7});
  scene.attempt.on_lost(0, "", scene.now);
  scene.attempt.on_lost(1, "", scene.now);
  scene.attempt.on_lost(3, "", scene.now);
  scene.attempt.on_step_end(1, "", scene.now);
  CHECK(scene.attempt.end().code == 76);
  CHECK(scene.attempt.end().reason == "join_timeout");
}

TEST_CASE("when nobody joins at all the step is stopped at once, and its nodes are named") {
  Scene scene({.join_timeout = seconds(5), .job_nodes = "n[1-4]"});
  scene.pass(seconds(5));
  CHECK(scene.notes.said[0] == "no rank said hello within 5 s; missing on n[1-4] (all)");
  CHECK(scene.notes.stops == std::vector<bool>{false});
}

TEST_CASE("a step that cannot be launched keeps srun's words") {
  Scene scene;
  scene.attempt.on_step_end(1, "srun: error: Unable to create step", scene.now);
  REQUIRE(scene.attempt.is_over());
  CHECK(scene.attempt.end().code == 77);
  CHECK(scene.attempt.end().reason == "launch_failed");
  CHECK(scene.attempt.end().message.find("srun: error: Unable to create step") !=
        std::string::npos);
}

TEST_CASE("a command line without rank agents is said to be that") {
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
  CHECK(scene.notes.said ==
        std::vector<std::string>{"rank 1 on n1 exited with code 64; the other rank is ended"});
  CHECK(scene.attempt.end().code == 64);
}

TEST_CASE("a rank that contradicts the others' world ends the attempt") {
  Scene scene;
  scene.hello(0, 4);
  CHECK(scene.attempt.wants(1));
  CHECK_FALSE(scene.attempt.wants(0));
  CHECK_FALSE(scene.attempt.wants(4));
  scene.hello(1, 8);
  REQUIRE(scene.notes.said.size() == 1);
  CHECK(scene.notes.said[0].find("rank 1 of 8; lead took it for rank 1 of 4") != std::string::npos);
}

TEST_CASE("lead's TERM cancels: the others end, the state is cancelled, the code 143") {
  Scene scene;
  scene.all_join(2);
  scene.attempt.on_own_signal(SIGTERM, scene.now);
  CHECK(scene.notes.broadcasts_of("end") == 1);
  scene.attempt.on_exit(0, {143, SIGTERM, ""}, scene.now);
  scene.attempt.on_exit(1, {137, SIGKILL, ""}, scene.now);
  scene.attempt.on_step_end(143, "", scene.now);
  CHECK(scene.attempt.end().code == 143);
  CHECK(scene.attempt.end().is_cancelled);
  CHECK(scene.attempt.end().reason == "signalled");
  CHECK(scene.notes.count("rank_failed") == 0);
}

TEST_CASE(
    "what Slurm gives as its reason is told beside its signal: a time limit is a failure, a "
    "preemption is not") {
  for (const bool word_comes_first : {false, true}) {
    for (const auto& [reason, sentence, is_cancelled] :
         {std::tuple{"TIME LIMIT",
                     "the job reached its time limit (resources.time); ended by SIGTERM", false},
          std::tuple{"PREEMPTION", "the job was preempted; ended by SIGTERM", true},
          std::tuple{"SOMETHING NEW", "Slurm ended the job: SOMETHING NEW; ended by SIGTERM",
                     true}}) {
      CAPTURE(reason);
      Scene scene;
      scene.all_join(2);
      if (word_comes_first) scene.attempt.on_cancelled(reason);
      scene.attempt.on_rank_signal(1, SIGTERM, scene.now);
      if (!word_comes_first) scene.attempt.on_cancelled(reason);
      scene.attempt.on_exit(0, {143, SIGTERM, ""}, scene.now);
      scene.attempt.on_exit(1, {137, SIGKILL, ""}, scene.now);
      scene.attempt.on_step_end(143, "", scene.now);
      REQUIRE(scene.attempt.is_over());
      CHECK(scene.attempt.end().is_timeout == (reason == std::string_view("TIME LIMIT")));
      CHECK(scene.attempt.end().message.starts_with(sentence));
      CHECK(scene.attempt.end().is_cancelled == is_cancelled);
      CHECK(scene.attempt.end().code == 143);
    }
  }
}

TEST_CASE("a rank that failed of itself is not excused by the reason that Slurm gives later") {
  Scene scene;
  scene.all_join(2);
  scene.attempt.on_exit(1, {3, 0, ""}, scene.now);
  scene.attempt.on_cancelled("TIME LIMIT");
  scene.attempt.on_exit(0, {143, SIGTERM, ""}, scene.now);
  scene.attempt.on_step_end(143, "", scene.now);
  CHECK(scene.attempt.end().message.starts_with("rank 1 on n1 exited with code 3"));
}

TEST_CASE("USR1 is recorded, and passed on once only where it is asked for") {
  for (const bool forward : {false, true}) {
    CAPTURE(forward);
    Scene scene({.forward_usr1 = forward});
    scene.all_join(2);
    scene.attempt.on_own_signal(SIGUSR1, scene.now);
    scene.attempt.on_own_signal(SIGUSR1, scene.now);
    scene.attempt.on_rank_signal(1, SIGUSR1, scene.now);
    CHECK(scene.notes.last("signal")["word"] == (forward ? "checkpoint" : "none"));
    CHECK(scene.notes.broadcasts_of("word") == (forward ? 1 : 0));
    CHECK(scene.notes.broadcasts_of("end") == 0);
  }
}

TEST_CASE(
    "a TERM that reaches ranks alone is preemption's grace with signal_before, else the end") {
  SUBCASE("forward") {
    AttemptOptions options;
    options.forward_usr1 = true;
    Scene scene(options);
    scene.all_join(2);
    scene.attempt.on_rank_signal(0, SIGTERM, scene.now);
    scene.attempt.on_rank_signal(1, SIGTERM, scene.now);
    CHECK(scene.notes.broadcasts_of("word") == 1);
    CHECK(scene.notes.broadcasts_of("end") == 0);
    CHECK(scene.notes.count("signal") == 1);  // one event, not one for each of 10,000 ranks
  }
  SUBCASE("not") {
    Scene scene;
    scene.all_join(2);
    scene.attempt.on_rank_signal(0, SIGTERM, scene.now);
    CHECK(scene.notes.broadcasts_of("end") == 1);
    CHECK(scene.attempt.end().code == 143);
  }
}

TEST_CASE(
    "a nested or unknown field of a program's report is not recorded, and a report of nothing else "
    "not at all") {
  Scene scene;
  scene.all_join(4);
  Json nested = Json::array();
  for (int i = 0; i < 60; ++i) nested = Json::array({nested});
  scene.attempt.on_progress(
      0, {{"step", 7}, {"nested", nested}, {"long", std::string(60'000, 'x')}}, scene.now);
  CHECK(scene.notes.last("progress") == Json({{"step", 7}}));
  scene.pass(seconds(2));
  const int before = scene.notes.count("progress");
  scene.attempt.on_progress(0, {{"nested", nested}}, scene.now);
  scene.pass(seconds(2));
  CHECK(scene.notes.count("progress") == before);
}

TEST_CASE(
    "a program that reports its end again and again makes one result a second, each with all "
    "before it") {
  Scene scene;
  scene.all_join(4);
  scene.attempt.on_progress(
      0, {{"final", true}, {"test_accuracy", 0.5}, {"notes", Json::array({1})}}, scene.now);
  CHECK(scene.notes.last("result") == Json({{"test_accuracy", 0.5}}));
  for (int i = 0; i < 100; ++i)
    scene.attempt.on_progress(0, {{"final", true}, {"test_loss", i}}, scene.now);
  CHECK(scene.notes.count("result") == 1);
  scene.pass(seconds(1));
  CHECK(scene.notes.count("result") == 2);
  CHECK(scene.notes.last("result") == Json({{"test_accuracy", 0.5}, {"test_loss", 99}}));
  scene.attempt.on_progress(0, {{"final", true}, {"test_loss", 99}}, scene.now);
  scene.pass(seconds(2));
  CHECK(scene.notes.count("result") == 2);  // no new result
}

TEST_CASE("rank 0's progress is kept, at most one a second, and its final word always") {
  Scene scene;
  scene.all_join(2);
  for (int step = 0; step < 100; ++step) {
    scene.attempt.on_progress(0, {{"op", "progress"}, {"step", step}}, scene.now);
    scene.attempt.on_progress(1, {{"step", -1}}, scene.now);
    scene.pass(milliseconds(25));
  }
  const int kept = scene.notes.count("progress");
  CHECK(kept >= 2);
  CHECK(kept <= 4);
  CHECK_FALSE(scene.notes.last("progress").contains("op"));
  scene.attempt.on_progress(0, {{"final", true}, {"test_accuracy", 0.98}}, scene.now);
  CHECK(scene.notes.last("result") == Json{{"test_accuracy", 0.98}});
}

TEST_CASE("a superseded attempt ends with the code it is given") {
  Scene scene;
  scene.all_join(2);
  scene.attempt.give_up(75, "superseded", scene.now);
  scene.attempt.on_exit(0, {143, SIGTERM, ""}, scene.now);
  scene.attempt.on_exit(1, {143, SIGTERM, ""}, scene.now);
  scene.attempt.on_step_end(143, "", scene.now);
  CHECK(scene.attempt.end().code == 75);
}

TEST_CASE(
    "ahead of the time limit the attempt ends when a checkpoint is saved, or when there is no more "
    "time") {
  AttemptOptions options;
  options.forward_usr1 = true;
  options.retries_timeout = true;
  Scene scene(options);
  scene.all_join(4);
  scene.attempt.on_progress(0, {{"checkpoint", 3}}, scene.now);  // a regular checkpoint
  CHECK(scene.notes.broadcasts_of("end") == 0);
  scene.attempt.on_own_signal(SIGUSR1, scene.now);
  scene.attempt.on_limit_near();
  scene.attempt.on_limit_ahead(seconds(40), scene.now);
  CHECK(scene.notes.broadcasts_of("end") == 0);
  SUBCASE("saved") {
    scene.attempt.on_progress(0, {{"checkpoint", 5}}, scene.now);
  }
  SUBCASE("no more time") {
    scene.pass(seconds(39));
    CHECK(scene.notes.broadcasts_of("end") == 0);
    scene.pass(seconds(1));
  }
  SUBCASE("the program leaves by itself") {
    for (int rank = 0; rank < 4; ++rank) scene.attempt.on_exit(rank, {3, 0, {}}, scene.now);
  }
  CHECK(scene.notes.broadcasts_of("end") == 1);
  end_all(scene);
  REQUIRE(scene.attempt.is_over());
  CHECK(scene.attempt.end().cause == Cause::kTimeout);
  CHECK(scene.attempt.end().is_timeout);
}

TEST_CASE(
    "a program that saves on the warning of the time limit and leaves with 0 is not done, unless "
    "it says so") {
  AttemptOptions options;
  options.forward_usr1 = true;
  options.retries_timeout = true;
  bool is_warned = true;
  bool is_timeout = true;
  std::string message =
      "all 4 ranks ended with 0 after the warning of the time limit, without a word that the "
      "program is done";
  Json last_word = {{"step", 7}, {"steps", 9}};
  SUBCASE("it says nothing") {
    last_word = Json::object();
  }
  SUBCASE("it is not at its last step") {}
  SUBCASE("it is at its last step") {
    last_word = {{"step", 9}, {"steps", 9}};
    is_timeout = false;
  }
  SUBCASE("it has told its results") {
    last_word = {{"final", true}, {"accuracy", 0.9}};
    is_timeout = false;
  }
  SUBCASE("somebody else wanted a checkpoint, the limit is far") {
    is_warned = false;
    is_timeout = false;
  }
  SUBCASE("nothing starts again for it: told, and completed") {
    options.retries_timeout = false;
    is_timeout = false;
    message = "all 4 ranks ended with 0 after the warning of the time limit";
  }
  const bool is_plain = !is_timeout && options.retries_timeout;
  Scene scene(options);
  scene.all_join(4);
  scene.attempt.on_own_signal(SIGUSR1, scene.now);
  if (is_warned) scene.attempt.on_limit_near();
  scene.attempt.on_progress(0, last_word, scene.now);
  for (int rank = 0; rank < 4; ++rank) scene.attempt.on_exit(rank, {}, scene.now);
  scene.attempt.on_step_end(0, "", scene.now);
  REQUIRE(scene.attempt.is_over());
  const auto& end = scene.attempt.end();
  CHECK(end.is_timeout == is_timeout);
  CHECK(end.cause == (is_timeout ? Cause::kTimeout : Cause::kNone));
  CHECK(end.code == (is_timeout ? 143 : 0));
  CHECK(end.message == (is_plain ? "all 4 ranks ended with 0" : message));
}

TEST_CASE(
    "ranks that save in a preemption's grace time and leave with 0 were preempted, if Slurm says "
    "so, too") {
  AttemptOptions options;
  options.forward_usr1 = true;
  Scene scene(options);
  scene.all_join(4);
  scene.attempt.on_rank_signal(2, SIGTERM, scene.now);
  bool is_done = false;
  SUBCASE("it may come again") {}
  SUBCASE("it had just told its results") {
    scene.attempt.on_progress(0, {{"final", true}}, scene.now);
    is_done = true;
  }
  for (int rank = 0; rank < 4; ++rank) scene.attempt.on_exit(rank, {}, scene.now);
  scene.attempt.on_step_end(0, "", scene.now);
  REQUIRE(scene.attempt.is_over());
  CHECK(scene.attempt.end().code == 0);  // before Slurm has been asked
  CHECK(scene.attempt.end().cause == (is_done ? Cause::kNone : Cause::kPreemption));
}

TEST_CASE(
    "what ended an attempt is told by a cause (a failure, memory, a preemption), and a "
    "cancellation has none") {
  Scene scene;
  scene.all_join(4);
  Cause expected = Cause::kFailure;
  SUBCASE("a code of its own") {
    scene.attempt.on_exit(1, {1, 0, {}}, scene.now);
  }
  SUBCASE("killed") {
    scene.attempt.on_exit(1, {137, SIGKILL, {}}, scene.now);
  }
  SUBCASE("killed for its memory") {
    scene.attempt.on_out_of_memory();
    scene.attempt.on_exit(1, {137, SIGKILL, {}}, scene.now);
    expected = Cause::kOom;
  }
  SUBCASE("preempted") {
    scene.attempt.on_cancelled("PREEMPTION");
    scene.attempt.on_own_signal(SIGTERM, scene.now);
    expected = Cause::kPreemption;
  }
  SUBCASE("requeued by somebody") {
    scene.attempt.on_cancelled("JOB REQUEUE");
    scene.attempt.on_own_signal(SIGTERM, scene.now);
    expected = Cause::kRequeue;
  }
  SUBCASE("its node failed") {
    scene.attempt.on_cancelled("NODE FAILURE on n2");
    scene.attempt.on_own_signal(SIGTERM, scene.now);
    expected = Cause::kNodeFailure;
  }
  SUBCASE("Slurm lost a node of a job that goes on") {
    scene.attempt.on_node_failure("n2", scene.now);
    CHECK(scene.notes.broadcasts_of("end") == 1);
    expected = Cause::kNodeFailure;
  }
  SUBCASE("Slurm lost a node, and ends the job to queue it again") {
    scene.attempt.on_node_failure("n2", scene.now);
    scene.attempt.on_own_signal(SIGTERM, scene.now);
    expected = Cause::kNodeFailure;
  }
  SUBCASE("cancelled") {
    scene.attempt.on_own_signal(SIGTERM, scene.now);
    expected = Cause::kNone;
  }
  SUBCASE("superseded") {
    scene.attempt.give_up(75, "another one", scene.now);
    expected = Cause::kNone;
  }
  end_all(scene);
  REQUIRE(scene.attempt.is_over());
  CHECK(word(scene.attempt.end().cause) == word(expected));
}

TEST_CASE("ten thousand ranks join, fail and end in well under a second of lead's time") {
  Scene scene;
  scene.all_join(10'000);
  scene.attempt.on_exit(77, {137, SIGKILL, ""}, scene.now);
  for (int rank = 0; rank < 10'000; ++rank) scene.attempt.on_lost(rank, "", scene.now);
  scene.attempt.on_step_end(1, "", scene.now);
  CHECK(scene.attempt.is_over());
  CHECK(scene.notes.count("rank_failed") == 1);
}

TEST_CASE("a hello whose world contradicts itself is refused") {
  Json message{{"host", "n1"}, {"addr", "10.0.0.1"}, {"pid", 1}, {"port", 0}};
  CHECK_FALSE(Hello::of_json(message));
  message["world"] = {{"rank", 4},       {"size", 4},      {"local_rank", 0},
                      {"local_size", 1}, {"node_rank", 0}, {"nnodes", 1}};
  CHECK_FALSE(Hello::of_json(message));
  message["world"]["rank"] = 3;
  CHECK(Hello::of_json(message)->world.rank == 3);
  message["world"]["size"] = 1e300;
  CHECK_FALSE(Hello::of_json(message));
}

}  // namespace
}  // namespace dlrun::agent
