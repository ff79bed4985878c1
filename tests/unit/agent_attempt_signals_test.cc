// Tests how an attempt handles signals, the time limit and reports of progress, and which cause the
// end of an attempt has.
#include <signal.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/attempt_scene.h"

namespace dlrun::agent {
namespace {

TEST_CASE("a TERM to lead ends all ranks, and the attempt is cancelled with code 143") {
  Scene scene;
  scene.all_join(2);
  scene.attempt.on_lead_signal(SIGTERM, scene.now);
  CHECK(scene.actions.broadcast_count("end") == 1);
  scene.attempt.on_exit(0, {143, SIGTERM, ""}, scene.now);
  scene.attempt.on_exit(1, {137, SIGKILL, ""}, scene.now);
  scene.attempt.on_step_end(143, "", scene.now);
  CHECK(scene.attempt.end().code == 143);
  CHECK(scene.attempt.end().is_cancelled);
  CHECK(scene.attempt.end().reason == EndReason::kSignalled);
  CHECK(scene.actions.count("rank_failed") == 0);
}

TEST_CASE(
    "the message has Slurm's reason and the signal, and a preemption is a cancellation, but a time "
    "limit is not") {
  for (const bool reason_comes_first : {false, true}) {
    for (const auto& [reason, sentence, is_cancelled] :
         {std::tuple{"TIME LIMIT",
                     "the job reached its time limit (resources.time); ended by SIGTERM", false},
          std::tuple{"PREEMPTION", "the job was preempted; ended by SIGTERM", true},
          std::tuple{"SOMETHING NEW", "Slurm ended the job: SOMETHING NEW; ended by SIGTERM",
                     true}}) {
      CAPTURE(reason);
      Scene scene;
      scene.all_join(2);
      if (reason_comes_first) scene.attempt.on_cancel_reason(reason);
      scene.attempt.on_rank_signal(1, SIGTERM, scene.now);
      if (!reason_comes_first) scene.attempt.on_cancel_reason(reason);
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

TEST_CASE("a rank that failed by itself stays the cause, whatever reason Slurm gives later") {
  Scene scene;
  scene.all_join(2);
  scene.attempt.on_exit(1, {3, 0, ""}, scene.now);
  scene.attempt.on_cancel_reason("TIME LIMIT");
  scene.attempt.on_exit(0, {143, SIGTERM, ""}, scene.now);
  scene.attempt.on_step_end(143, "", scene.now);
  CHECK(scene.attempt.end().message.starts_with("rank 1 on n1 exited with code 3"));
}

TEST_CASE(
    "USR1 is recorded, and reaches the ranks once if forwards_usr1 is set and never otherwise") {
  for (const bool forwards_usr1 : {false, true}) {
    CAPTURE(forwards_usr1);
    Scene scene({.forwards_usr1 = forwards_usr1});
    scene.all_join(2);
    scene.attempt.on_lead_signal(SIGUSR1, scene.now);
    scene.attempt.on_lead_signal(SIGUSR1, scene.now);
    scene.attempt.on_rank_signal(1, SIGUSR1, scene.now);
    CHECK(scene.actions.last("signal")["word"] == (forwards_usr1 ? "checkpoint" : "none"));
    CHECK(scene.actions.broadcast_count("word") == (forwards_usr1 ? 1 : 0));
    CHECK(scene.actions.broadcast_count("end") == 0);
  }
}

TEST_CASE("a long checkpoint after a USR1 is no hang, whether lead or a rank got the signal") {
  for (const bool reaches_lead : {true, false}) {
    CAPTURE(reaches_lead);
    Scene scene({.forwards_usr1 = true, .hang_after = seconds(10)});
    scene.all_join(2);
    scene.attempt.on_progress(0, {{"step", 7}}, scene.now);
    if (reaches_lead) {
      scene.attempt.on_lead_signal(SIGUSR1, scene.now);
    } else {
      scene.attempt.on_rank_signal(1, SIGUSR1, scene.now);
    }
    scene.pass(seconds(60));
    CHECK(scene.actions.broadcast_count("end") == 0);
  }
}

TEST_CASE(
    "a TERM that only ranks receive starts a preemption's grace time if forwards_usr1 is set, else "
    "ends the run") {
  SUBCASE("with forwards_usr1") {
    AttemptOptions options;
    options.forwards_usr1 = true;
    Scene scene(options);
    scene.all_join(2);
    scene.attempt.on_rank_signal(0, SIGTERM, scene.now);
    scene.attempt.on_rank_signal(1, SIGTERM, scene.now);
    CHECK(scene.actions.broadcast_count("word") == 1);
    CHECK(scene.actions.broadcast_count("end") == 0);
    CHECK(scene.actions.count("signal") == 1);  // one event, not one for each rank
  }
  SUBCASE("without forwards_usr1") {
    Scene scene;
    scene.all_join(2);
    scene.attempt.on_rank_signal(0, SIGTERM, scene.now);
    CHECK(scene.actions.broadcast_count("end") == 1);
    CHECK(scene.attempt.end().code == 143);
  }
}

TEST_CASE(
    "nested and unknown fields of a progress report are dropped, and a report without other fields "
    "adds no event") {
  Scene scene;
  scene.all_join(4);
  Json nested = Json::array();
  for (int i = 0; i < 60; ++i) nested = Json::array({nested});
  scene.attempt.on_progress(
      0, {{"step", 7}, {"nested", nested}, {"long", std::string(60'000, 'x')}}, scene.now);
  CHECK(scene.actions.last("progress") == Json({{"step", 7}}));
  scene.pass(seconds(2));
  const int before = scene.actions.count("progress");
  scene.attempt.on_progress(0, {{"nested", nested}}, scene.now);
  scene.pass(seconds(2));
  CHECK(scene.actions.count("progress") == before);
}

TEST_CASE(
    "repeated final reports are recorded at most once a second, each with all fields reported so "
    "far") {
  Scene scene;
  scene.all_join(4);
  scene.attempt.on_progress(
      0, {{"final", true}, {"test_accuracy", 0.5}, {"notes", Json::array({1})}}, scene.now);
  CHECK(scene.actions.last("result") == Json({{"test_accuracy", 0.5}}));
  for (int i = 0; i < 100; ++i)
    scene.attempt.on_progress(0, {{"final", true}, {"test_loss", i}}, scene.now);
  CHECK(scene.actions.count("result") == 1);
  scene.pass(seconds(1));
  CHECK(scene.actions.count("result") == 2);
  CHECK(scene.actions.last("result") == Json({{"test_accuracy", 0.5}, {"test_loss", 99}}));
  scene.attempt.on_progress(0, {{"final", true}, {"test_loss", 99}}, scene.now);
  scene.pass(seconds(2));
  CHECK(scene.actions.count("result") == 2);  // no new result
}

TEST_CASE(
    "progress of rank 0 is recorded at most once a second, and its first final report "
    "immediately") {
  Scene scene;
  scene.all_join(2);
  for (int step = 0; step < 100; ++step) {
    scene.attempt.on_progress(0, {{"op", "progress"}, {"step", step}}, scene.now);
    scene.attempt.on_progress(1, {{"step", -1}}, scene.now);
    scene.pass(milliseconds(25));
  }
  const int recorded = scene.actions.count("progress");
  CHECK(recorded >= 2);
  CHECK(recorded <= 4);
  CHECK_FALSE(scene.actions.last("progress").contains("op"));
  scene.attempt.on_progress(0, {{"final", true}, {"test_accuracy", 0.98}}, scene.now);
  CHECK(scene.actions.last("result") == Json{{"test_accuracy", 0.98}});
}

TEST_CASE("a superseded attempt ends with the exit code that give_up() got") {
  Scene scene;
  scene.all_join(2);
  scene.attempt.give_up(75, "superseded", scene.now);
  scene.attempt.on_exit(0, {143, SIGTERM, ""}, scene.now);
  scene.attempt.on_exit(1, {143, SIGTERM, ""}, scene.now);
  scene.attempt.on_step_end(143, "", scene.now);
  CHECK(scene.attempt.end().code == 75);
}

TEST_CASE(
    "after the time limit's warning, an attempt ends as a timeout at a checkpoint, at the limit or "
    "at an exit") {
  AttemptOptions options;
  options.forwards_usr1 = true;
  options.retries_timeout = true;
  Scene scene(options);
  scene.all_join(4);
  scene.attempt.on_progress(0, {{"checkpoint", 3}}, scene.now);  // a regular checkpoint
  CHECK(scene.actions.broadcast_count("end") == 0);
  scene.attempt.on_lead_signal(SIGUSR1, scene.now);
  scene.attempt.on_limit_near();
  scene.attempt.end_before_limit(seconds(40), scene.now);
  CHECK(scene.actions.broadcast_count("end") == 0);
  SUBCASE("a checkpoint is saved") {
    scene.attempt.on_progress(0, {{"checkpoint", 5}}, scene.now);
  }
  SUBCASE("the time left is used up") {
    scene.pass(seconds(39));
    CHECK(scene.actions.broadcast_count("end") == 0);
    scene.pass(seconds(1));
  }
  SUBCASE("the program exits by itself") {
    for (int rank = 0; rank < 4; ++rank) scene.attempt.on_exit(rank, {3, 0, {}}, scene.now);
  }
  CHECK(scene.actions.broadcast_count("end") == 1);
  end_four_ranks(scene);
  REQUIRE(scene.attempt.is_over());
  CHECK(scene.attempt.end().cause == Cause::kTimeout);
  CHECK(scene.attempt.end().is_timeout);
}

TEST_CASE(
    "a program that exits with 0 after the time limit's warning starts again, unless it reports "
    "that it is done") {
  AttemptOptions options;
  options.forwards_usr1 = true;
  options.retries_timeout = true;
  bool is_warned = true;
  bool is_timeout = true;
  std::string message =
      "all 4 ranks ended with 0 after the warning of the time limit, without a report that the "
      "program is done";
  Json last_report = {{"step", 7}, {"steps", 9}};
  SUBCASE("it reports nothing") {
    last_report = Json::object();
  }
  SUBCASE("it is not at its last step") {}
  SUBCASE("it is at its last step") {
    last_report = {{"step", 9}, {"steps", 9}};
    is_timeout = false;
  }
  SUBCASE("it has reported its results") {
    last_report = {{"final", true}, {"accuracy", 0.9}};
    is_timeout = false;
  }
  SUBCASE("another sender of USR1 asked for a checkpoint, and the limit is far") {
    is_warned = false;
    is_timeout = false;
  }
  SUBCASE("retry.on has no timeout: the run has completed, and the message mentions the warning") {
    options.retries_timeout = false;
    is_timeout = false;
    message = "all 4 ranks ended with 0 after the warning of the time limit";
  }
  const bool mentions_warning = is_timeout || !options.retries_timeout;
  Scene scene(options);
  scene.all_join(4);
  scene.attempt.on_lead_signal(SIGUSR1, scene.now);
  if (is_warned) scene.attempt.on_limit_near();
  scene.attempt.on_progress(0, last_report, scene.now);
  for (int rank = 0; rank < 4; ++rank) scene.attempt.on_exit(rank, {}, scene.now);
  scene.attempt.on_step_end(0, "", scene.now);
  REQUIRE(scene.attempt.is_over());
  const auto& end = scene.attempt.end();
  CHECK(end.is_timeout == is_timeout);
  CHECK(end.cause == (is_timeout ? Cause::kTimeout : Cause::kNone));
  CHECK(end.code == (is_timeout ? 143 : 0));
  CHECK(end.message == (mentions_warning ? message : "all 4 ranks ended with 0"));
}

TEST_CASE(
    "ranks that exit with 0 in a preemption's grace time count as preempted, unless they have "
    "reported results") {
  AttemptOptions options;
  options.forwards_usr1 = true;
  Scene scene(options);
  scene.all_join(4);
  scene.attempt.on_rank_signal(2, SIGTERM, scene.now);
  bool has_reported_results = false;
  SUBCASE("they have reported no results") {}
  SUBCASE("they have reported their results") {
    scene.attempt.on_progress(0, {{"final", true}}, scene.now);
    has_reported_results = true;
  }
  for (int rank = 0; rank < 4; ++rank) scene.attempt.on_exit(rank, {}, scene.now);
  scene.attempt.on_step_end(0, "", scene.now);
  REQUIRE(scene.attempt.is_over());
  CHECK(scene.attempt.end().code == 0);  // lead has not yet asked whether Slurm requeues the job
  CHECK(scene.attempt.end().cause == (has_reported_results ? Cause::kNone : Cause::kPreemption));
}

TEST_CASE(
    "each end of an attempt has the cause that its signs show, and a cancelled or superseded "
    "attempt has none") {
  Scene scene;
  scene.all_join(4);
  Cause expected = Cause::kFailure;
  SUBCASE("a rank exits with a code") {
    scene.attempt.on_exit(1, {1, 0, {}}, scene.now);
  }
  SUBCASE("a rank is killed") {
    scene.attempt.on_exit(1, {137, SIGKILL, {}}, scene.now);
  }
  SUBCASE("a rank is killed because memory ran out") {
    scene.attempt.on_out_of_memory();
    scene.attempt.on_exit(1, {137, SIGKILL, {}}, scene.now);
    expected = Cause::kOom;
  }
  SUBCASE("Slurm preempts the job") {
    scene.attempt.on_cancel_reason("PREEMPTION");
    scene.attempt.on_lead_signal(SIGTERM, scene.now);
    expected = Cause::kPreemption;
  }
  SUBCASE("a person requeues the job") {
    scene.attempt.on_cancel_reason("JOB REQUEUE");
    scene.attempt.on_lead_signal(SIGTERM, scene.now);
    expected = Cause::kRequeue;
  }
  SUBCASE("a node of the job failed") {
    scene.attempt.on_cancel_reason("NODE FAILURE on n2");
    scene.attempt.on_lead_signal(SIGTERM, scene.now);
    expected = Cause::kNodeFailure;
  }
  SUBCASE("Slurm lost a node and lets the job run") {
    scene.attempt.on_node_failure("n2", scene.now);
    CHECK(scene.actions.broadcast_count("end") == 1);
    expected = Cause::kNodeFailure;
  }
  SUBCASE("Slurm lost a node, and ends the job to queue it again") {
    scene.attempt.on_node_failure("n2", scene.now);
    scene.attempt.on_lead_signal(SIGTERM, scene.now);
    expected = Cause::kNodeFailure;
  }
  SUBCASE("the job is cancelled") {
    scene.attempt.on_lead_signal(SIGTERM, scene.now);
    expected = Cause::kNone;
  }
  SUBCASE("another attempt supersedes this one") {
    scene.attempt.give_up(75, "another one", scene.now);
    expected = Cause::kNone;
  }
  end_four_ranks(scene);
  REQUIRE(scene.attempt.is_over());
  CHECK(word(scene.attempt.end().cause) == word(expected));
}

}  // namespace
}  // namespace dlrun::agent
