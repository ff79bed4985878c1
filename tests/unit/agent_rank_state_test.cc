// Tests the decisions of a rank's agent: how it ends its program, and its messages to lead.
#include <signal.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/agent/exit_codes.h"
#include "tests/unit/rank_scene.h"

namespace dlrun::agent {
namespace {

/// Orders about processes (RankScene::orders), or lines that the agent printed.
using Texts = std::vector<std::string>;

const std::string kUsr1 = "signal " + std::to_string(SIGUSR1);
const std::string kUsr2 = "signal " + std::to_string(SIGUSR2);
const std::string kTerm = "signal " + std::to_string(SIGTERM);

TEST_CASE("a program that ends by itself is recorded with its own exit code") {
  RankScene scene;
  scene.run_with_lead();
  scene.pass_with_lead(seconds(1));
  scene.state.on_program_end(3, 0, scene.now);
  CHECK(scene.state.exit_code() == 3);
  CHECK(scene.exit_record() ==
        Json{{"type", "exit"}, {"code", 3}, {"signal", 0}, {"error", ""}, {"own", true}});
  CHECK(scene.orders.empty());
  SUBCASE("processes that the program left behind are killed immediately") {
    scene.pass(milliseconds(20));
    CHECK(scene.orders == Texts{"kill"});
  }
  SUBCASE("the end is recorded once") {
    scene.state.on_program_end(4, 0, scene.now);
    scene.state.on_start_failure(kExitInternal, "late", scene.now);
    scene.state.on_guard_gone(scene.now);
    CHECK(scene.state.exit_code() == 3);
    CHECK(scene.sent_count("exit") == 1);
  }
}

TEST_CASE("lead hears of a TERM to the whole step before it hears of the program's end") {
  RankScene scene;
  scene.run_with_lead();
  scene.state.on_program_end(128 + SIGTERM, SIGTERM, scene.now);
  CHECK(scene.exit_record().is_null());
  CHECK(scene.state.next_deadline(scene.now) == scene.now + SignalRelay::kTreeWait);
  SUBCASE("the agent gets the signal, too") {
    scene.pass(milliseconds(100));
    scene.state.on_signal(SIGTERM, false, scene.now);
    scene.pass(milliseconds(1));
    REQUIRE(scene.sent.size() >= 2);
    CHECK(scene.sent[scene.sent.size() - 2]["type"] == "signal");
    CHECK(scene.sent.back()["type"] == "exit");
  }
  SUBCASE("only the program gets the signal") {
    scene.pass(SignalRelay::kTreeWait - milliseconds(1));
    CHECK(scene.exit_record().is_null());
    scene.pass(milliseconds(1));
    CHECK(scene.sent_count("signal") == 0);
  }
  SUBCASE("lead orders the end") {
    scene.state.on_end(false, false, scene.now);
  }
  SUBCASE("the connection to lead closes") {
    scene.state.on_lead_closed("closed", false, scene.now);
  }
  SUBCASE("the guard ends") {
    scene.state.on_guard_gone(scene.now);
  }
  CHECK(scene.exit_record()["code"] == 128 + SIGTERM);
  CHECK(scene.exit_record()["signal"] == SIGTERM);
  CHECK(scene.exit_record()["own"] == true);
  CHECK(scene.sent_count("exit") == 1);
  // The agent kills the processes that the program left behind, and signals nothing else.
  for (const auto& order : scene.orders) CHECK(order == "kill");
}

TEST_CASE("after an order to end, the agent sends TERM immediately and KILL a second later") {
  RankScene scene;
  scene.run_with_lead();
  scene.state.on_end(false, false, scene.now);
  CHECK(scene.orders == Texts{"TERM tree"});
  CHECK(scene.state.is_ending());
  scene.pass(kKilledAfterTerm - milliseconds(1));
  CHECK(scene.orders == Texts{"TERM tree"});
  SUBCASE("a second order changes nothing") {
    scene.state.on_end(false, false, scene.now);
    CHECK(scene.orders == Texts{"TERM tree"});
  }
  CHECK(scene.state.next_deadline(scene.now) == scene.now + milliseconds(1));
  scene.pass(milliseconds(1));
  CHECK(scene.orders == Texts{"TERM tree", "kill"});
  SUBCASE("the kill is repeated until no process is left") {
    CHECK(scene.state.next_deadline(scene.now) == scene.now + RankState::kKillEvery);
    scene.pass(milliseconds(100));
    scene.state.on_program_end(128 + SIGKILL, SIGKILL, scene.now);
    scene.is_any_alive = false;
    scene.pass(milliseconds(100));
    scene.pass(milliseconds(100));
    CHECK(scene.orders == Texts{"TERM tree", "kill", "kill", "kill"});
    CHECK(scene.exit_record()["code"] == 128 + SIGKILL);
    CHECK(scene.exit_record()["own"] == false);
  }
}

/// Orders the rank to end. Slurm has sent a TERM to the whole step, which may not have reached the
/// program yet. Then moves the clock to 1 ms before the agent sends its own TERM.
/// lead_reports_term: lead's order reports this TERM; otherwise the agent itself has received it.
void end_with_term_under_way(RankScene& scene, bool lead_reports_term) {
  scene.run_with_lead();
  if (!lead_reports_term) scene.state.on_signal(SIGTERM, false, scene.now);
  scene.state.on_end(lead_reports_term, false, scene.now);
  scene.pass(RankState::kTermArrivesWithin - milliseconds(1));
  CHECK(scene.orders.empty());
}

TEST_CASE("if a TERM to the whole step reaches the program, the agent sends no TERM of its own") {
  for (const bool lead_reports_term : {true, false}) {
    CAPTURE(lead_reports_term);
    RankScene scene;
    end_with_term_under_way(scene, lead_reports_term);
    scene.state.on_signal(SIGTERM, false, scene.now);
    scene.state.on_signal(SIGTERM, true, scene.now);
    scene.pass(milliseconds(1));
    CHECK(scene.orders.empty());
  }
}

TEST_CASE(
    "if the TERM to the whole step does not reach the program, the agent sends one after a short "
    "wait") {
  for (const bool lead_reports_term : {true, false}) {
    CAPTURE(lead_reports_term);
    RankScene scene;
    end_with_term_under_way(scene, lead_reports_term);
    scene.pass(milliseconds(1));
    CHECK(scene.orders == Texts{"TERM tree"});
  }
}

TEST_CASE(
    "a program that was already exiting when lead ordered its end counts as ended by itself") {
  RankScene scene;
  scene.run_with_lead();
  bool is_exiting = false;
  SUBCASE("exiting") {
    is_exiting = true;
  }
  SUBCASE("running") {
    is_exiting = false;
  }
  scene.state.on_end(false, is_exiting, scene.now);
  scene.state.on_end(false, !is_exiting, scene.now);  // only the first order counts
  scene.state.on_program_end(1, 0, scene.now);
  CHECK(scene.exit_record()["own"] == is_exiting);
}

TEST_CASE("an order to end before the program has started ends the rank immediately") {
  RankScene scene;
  scene.state.on_connected();
  scene.pass_with_lead(seconds(1));
  scene.state.on_end(false, false, scene.now);
  CHECK(scene.state.exit_code() == 128 + SIGTERM);
  CHECK(scene.exit_record()["signal"] == SIGTERM);
  CHECK_FALSE(scene.state.awaits_start());
}

TEST_CASE("a rank whose lead is silent for longer than the lease ends its program") {
  RankScene scene;
  scene.run_with_lead();
  scene.pass_with_lead(seconds(30));
  CHECK(scene.orders.empty());
  scene.state.on_heard();
  scene.pass(kLease);
  CHECK(scene.orders.empty());
  scene.pass(milliseconds(1));
  CHECK(scene.orders == Texts{"TERM tree"});
  CHECK(scene.printed == Texts{"no message from lead for 10 s; the program is ended"});
  SUBCASE("a program that then exits with 0 has not succeeded") {
    scene.state.on_program_end(0, 0, scene.now);
    CHECK(scene.state.exit_code() == 128 + SIGTERM);
    CHECK(scene.exit_record()["error"] == "ended by its agent: no message from lead for 10 s");
    CHECK(scene.exit_record()["unheard"] == true);
  }
  SUBCASE("the program is killed even if lead comes back") {
    scene.state.on_heard();
    scene.pass(kKilledAfterTerm);
    CHECK(scene.orders == Texts{"TERM tree", "kill"});
    CHECK(scene.printed.size() == 1);
  }
}

TEST_CASE("time in which the agent itself was suspended does not count as silence of lead") {
  RankScene scene;
  scene.run_with_lead();
  scene.pass(seconds(5));
  scene.now += std::chrono::hours(1);
  scene.state.tick(scene.now);
  CHECK(scene.orders.empty());
  scene.pass(seconds(3));
  CHECK(scene.orders.empty());
  scene.pass(milliseconds(100));
  CHECK(scene.orders == Texts{"TERM tree"});
}

TEST_CASE("a rank that waits for the others ends without a program if lead is silent") {
  RankScene scene;
  scene.state.on_connected();
  scene.pass(kLease + milliseconds(100));
  CHECK(scene.printed == Texts{"no message from lead for 10 s; the rank ends without a program"});
  CHECK(scene.state.exit_code() == 128 + SIGTERM);
  CHECK(scene.exit_record()["unheard"] == true);
}

TEST_CASE("a closed connection to lead ends the program") {
  RankScene scene;
  scene.run_with_lead();
  scene.state.on_lead_closed("Connection reset", false, scene.now);
  CHECK(scene.printed == Texts{"lead is gone (Connection reset); the program is ended"});
  CHECK(scene.orders == Texts{"TERM tree"});
  scene.state.on_program_end(0, 0, scene.now);
  scene.is_any_alive = false;
  scene.pass(kKilledAfterTerm);
  CHECK(scene.is_done());  // nobody is left to confirm the record
}

TEST_CASE("a connection that lead closes after the program's end is not reported") {
  RankScene scene;
  scene.run_with_lead();
  scene.state.on_program_end(0, 0, scene.now);
  scene.state.on_lead_closed("closed", false, scene.now);
  CHECK(scene.printed.empty());
  CHECK(scene.state.exit_code() == 0);
}

TEST_CASE("a signal is reported to lead, and lead's answer decides what happens") {
  RankScene scene;
  scene.run_with_lead();
  scene.state.on_signal(SIGTERM, false, scene.now);
  CHECK(scene.sent.back() == json_of(MessageToLead(to_lead::Signal{SIGTERM})));
  CHECK(scene.state.next_deadline(scene.now) == scene.now + RankState::kAnswerWait);
  scene.pass(RankState::kAnswerWait - milliseconds(1));
  CHECK(scene.orders.empty());
  SUBCASE("checkpoint: the program gets USR1 once in an attempt") {
    scene.state.on_answer(SignalDecision::kCheckpoint, scene.now);
    scene.pass(SignalRelay::kTreeWait);
    CHECK(scene.orders == Texts{kUsr1});
    scene.state.on_answer(SignalDecision::kCheckpoint, scene.now);
    scene.pass(seconds(3));
    CHECK(scene.orders == Texts{kUsr1});
    CHECK(scene.printed.empty());
  }
  SUBCASE("no answer: the program is ended") {
    scene.pass(milliseconds(1));
    CHECK(scene.printed == Texts{"no message from lead after a signal; the program is ended"});
    scene.pass(RankState::kTermArrivesWithin);
    CHECK(scene.orders == Texts{"TERM tree"});
    scene.state.on_program_end(0, 0, scene.now);
    CHECK(scene.exit_record()["error"] ==
          "ended by its agent: no message from lead after a signal");
  }
  SUBCASE("an order to end: the wait for an answer is over") {
    scene.state.on_end(true, false, scene.now);
    scene.pass(seconds(3));
    CHECK(scene.printed.empty());
  }
}

TEST_CASE("a USR1 without an answer from lead does not end the program") {
  RankScene scene;
  scene.run_with_lead();
  scene.state.on_signal(SIGUSR1, false, scene.now);
  CHECK(scene.sent_count("signal") == 1);
  scene.pass_with_lead(seconds(5));
  CHECK(scene.orders.empty());
}

TEST_CASE(
    "a signal that arrives through both agent and guard is reported once, and a later one is "
    "reported again") {
  RankScene scene;
  scene.run_with_lead();
  CHECK(scene.state.on_signal(SIGTERM, true, scene.now));
  CHECK_FALSE(scene.state.on_signal(SIGTERM, false, scene.now));
  CHECK(scene.sent_count("signal") == 1);
  SUBCASE("the second signal does not extend the wait for the answer to the first") {
    scene.pass(milliseconds(1500));
    CHECK(scene.state.on_signal(SIGTERM, false, scene.now));
    CHECK(scene.sent_count("signal") == 2);
    scene.pass(milliseconds(500));
    CHECK(scene.printed.size() == 1);
  }
}

TEST_CASE("a USR2 goes to the program without a question to lead") {
  RankScene scene;
  scene.run_with_lead();
  scene.state.on_signal(SIGUSR2, true, scene.now);
  scene.pass(SignalRelay::kTreeWait - milliseconds(1));
  CHECK(scene.orders.empty());
  SUBCASE("it came only through the guard: the program does not have it yet") {
    scene.pass(milliseconds(1));
    CHECK(scene.orders == Texts{kUsr2});
  }
  SUBCASE("it came through both agent and guard: the program has it") {
    scene.state.on_signal(SIGUSR2, false, scene.now);
    scene.pass(milliseconds(1));
    CHECK(scene.orders.empty());
  }
  CHECK(scene.sent_count("signal") == 0);
}

TEST_CASE("without a lead, signals go to the program") {
  RankScene scene;
  scene.run_alone();
  for (const int signal : {SIGUSR1, SIGTERM}) scene.state.on_signal(signal, false, scene.now);
  scene.pass(seconds(20));
  CHECK(scene.orders == Texts{kUsr1, kTerm});
  CHECK(scene.sent.empty());
  SUBCASE("a second TERM goes to the program, too") {
    scene.state.on_signal(SIGTERM, false, scene.now);
    scene.pass(SignalRelay::kTreeWait);
    CHECK(scene.orders == Texts{kUsr1, kTerm, kTerm});
  }
}

TEST_CASE("INT ends the rank while it waits to connect to lead, and USR1 does not") {
  RankScene scene;
  scene.state.on_signal(SIGUSR1, false, scene.now);
  CHECK_FALSE(scene.state.exit_code());
  scene.state.on_signal(SIGINT, false, scene.now);
  CHECK(scene.state.exit_code() == 128 + SIGINT);
  CHECK_FALSE(scene.state.awaits_start());
}

TEST_CASE("a rank whose guard was killed kills all its processes immediately") {
  RankScene scene;
  scene.run_with_lead();
  scene.state.on_guard_gone(scene.now);
  CHECK(scene.exit_record()["code"] == 128 + SIGKILL);
  CHECK(scene.exit_record()["signal"] == SIGKILL);
  scene.pass(milliseconds(1));
  CHECK(scene.orders == Texts{"kill"});
}

TEST_CASE(
    "a program that is suspended (SIGSTOP) for some seconds is reported to lead every second") {
  RankScene scene;
  scene.run_with_lead();
  scene.pass_with_lead(seconds(2));
  scene.program_is_suspended = true;
  scene.pass_with_lead(seconds(2));
  CHECK(scene.sent_count("stopped") == 0);
  scene.pass_with_lead(seconds(3));
  CHECK(scene.sent_count("stopped") >= 2);
  const int report_count = scene.sent_count("stopped");
  scene.program_is_suspended = false;
  scene.pass_with_lead(seconds(2));
  CHECK(scene.sent_count("stopped") == report_count);
  SUBCASE("the time starts again with the next SIGSTOP") {
    scene.program_is_suspended = true;
    scene.pass_with_lead(seconds(2));
    CHECK(scene.sent_count("stopped") == report_count);
  }
  SUBCASE(
      "a suspended job, whose agents are suspended as well, does not count as a suspended "
      "program") {
    scene.program_is_suspended = true;
    scene.now += seconds(600);
    scene.state.on_heard();
    scene.state.tick(scene.now);
    CHECK(scene.sent_count("stopped") == report_count);
  }
}

TEST_CASE("heartbeats go out every three seconds, also before the program starts") {
  RankScene scene;
  scene.state.on_connected();
  scene.pass_with_lead(seconds(6));
  CHECK(scene.beat_count == 2);
  scene.state.on_lead_closed("closed", false, scene.now);
  scene.pass(seconds(6));
  CHECK(scene.beat_count == 2);
}

TEST_CASE("the check of collectives decides whether the program starts") {
  RankScene scene;
  scene.state.on_connected();
  scene.state.on_start();
  SUBCASE("it passes") {
    scene.state.on_check_end(std::nullopt, scene.now);
    CHECK(scene.sent_count("checked") == 1);
    CHECK(scene.orders == Texts{"start"});
    CHECK(scene.state.is_running());
  }
  SUBCASE("it fails: lead ends the rank") {
    scene.state.on_check_end(to_lead::CheckFailed{}, scene.now);
    CHECK(scene.sent.size() == 1);
    CHECK_FALSE(scene.state.exit_code());
    scene.state.on_end(false, false, scene.now);
    CHECK(scene.exit_record()["code"] == 128 + SIGTERM);
    CHECK(scene.orders.empty());
  }
  SUBCASE("the rank is ordered to end meanwhile: the program does not start") {
    scene.state.on_end(false, false, scene.now);
    CHECK(scene.orders == Texts{"TERM tree"});
    scene.state.on_check_end(std::nullopt, scene.now);
    CHECK(scene.exit_record()["code"] == 128 + SIGTERM);
    CHECK(scene.sent_count("checked") == 0);
  }
}

/// A rank that loses its connection to lead while it sends the result of the check.
struct RankLosingLead final : RankOutlet {
  RankState state{*this, Clock::time_point(std::chrono::hours(1))};
  bool has_started = false;

  void send(const MessageToLead& message) override {
    if (json_of(message)["type"] == "checked")
      state.on_lead_closed("closed", false, Clock::time_point(std::chrono::hours(1)));
  }
  void send_beat(Clock::time_point) override {}
  void say(std::string_view) override {}
  void start_program() override { has_started = true; }
  void look_at_program() override {}
  void signal_program(int) override {}
  void end_processes() override {}
  void kill_processes() override {}
};

TEST_CASE("no program starts if the connection breaks while the result of the check is sent") {
  RankLosingLead rank;
  rank.state.on_connected();
  rank.state.on_start();
  rank.state.on_check_end(std::nullopt, RankOutlet::Clock::time_point(std::chrono::hours(1)));
  CHECK_FALSE(rank.has_started);
  CHECK(rank.state.exit_code() == 128 + SIGTERM);
}

TEST_CASE(
    "a program that cannot be started is reported to lead, or to the user if there is no lead") {
  RankScene scene;
  SUBCASE("with a lead") {
    scene.state.on_connected();
    scene.state.on_start();
    scene.state.on_start_failure(127, "'pyton' was not found", scene.now);
    CHECK(scene.exit_record()["error"] == "'pyton' was not found");
    CHECK(scene.printed.empty());
  }
  SUBCASE("without a lead") {
    scene.state.on_start();
    scene.state.on_start_failure(127, "'pyton' was not found", scene.now);
    CHECK(scene.printed == Texts{"'pyton' was not found"});
  }
  CHECK(scene.state.exit_code() == 127);
}

// The field "of" of the exit record has the blamed rank.
TEST_CASE(
    "the rank that the bundled trainer blames is in the exit record only if the trainer fails by "
    "itself") {
  RankScene scene;
  scene.run_with_lead();
  scene.state.on_blame(5, "rank 5 is gone");
  SUBCASE("the program exits with a code") {
    scene.state.on_program_end(1, 0, scene.now);
    CHECK(scene.exit_record()["of"] == 5);
    CHECK(scene.exit_record()["error"] == "rank 5 is gone");
  }
  SUBCASE("a signal ended the program") {
    scene.state.on_program_end(128 + SIGSEGV, SIGSEGV, scene.now);
    CHECK_FALSE(scene.exit_record().contains("of"));
  }
  SUBCASE("lead ordered the rank to end first") {
    scene.state.on_end(false, false, scene.now);
    scene.state.on_program_end(1, 0, scene.now);
    CHECK_FALSE(scene.exit_record().contains("of"));
  }
  SUBCASE("the program ended without an error") {
    scene.state.on_program_end(0, 0, scene.now);
    CHECK_FALSE(scene.exit_record().contains("of"));
  }
}

/// A rank whose program has ended and whose processes are gone. Its exit record is sent, but not
/// confirmed.
struct EndedRank : RankScene {
  EndedRank() {
    run_with_lead();
    state.on_program_end(0, 0, now);
    ended_at = now;
    is_any_alive = false;
    pass(milliseconds(100));
  }
  /// Moves the clock so that this time has passed since the program's end.
  void pass_until(milliseconds time) {
    pass(std::chrono::duration_cast<milliseconds>(ended_at + time - now));
  }

  Clock::time_point ended_at;
};

TEST_CASE(
    "a rank is done when its output is complete and lead has its exit record, or when a wait for "
    "these is over") {
  EndedRank rank;
  SUBCASE("lead has the record") {
    CHECK_FALSE(rank.is_done());
    rank.state.on_exit_confirmed();
    CHECK(rank.is_done());
  }
  SUBCASE("lead does not confirm the record") {
    rank.pass_until(kExitConfirmedWithin - milliseconds(1));
    CHECK_FALSE(rank.is_done());
    rank.pass_until(kExitConfirmedWithin);
    CHECK(rank.is_done());
  }
  SUBCASE("a reader is slow") {
    rank.state.on_exit_confirmed();
    rank.pass_until(RankState::kOutputWait - milliseconds(1));
    CHECK_FALSE(rank.is_done({.is_held = true}));
    rank.pass_until(RankState::kOutputWait);
    CHECK(rank.is_done({.is_held = true}));
  }
  SUBCASE("a pipe stays open") {
    rank.state.on_exit_confirmed();
    rank.pass(RankState::kPipesWait - milliseconds(1));
    CHECK_FALSE(rank.is_done({.is_at_end = false}));
    rank.pass(milliseconds(1));
    CHECK(rank.is_done({.is_at_end = false}));
  }
  SUBCASE("the log is on a slow file system") {
    rank.state.on_exit_confirmed();
    rank.pass_until(RankState::kLogWait - milliseconds(1));
    CHECK_FALSE(rank.is_done({.log_is_drained = false}));
    rank.pass_until(RankState::kLogWait);
    CHECK(rank.is_done({.log_is_drained = false}));
  }
}

TEST_CASE("a process that cannot be killed delays the rank's end only for some seconds") {
  RankScene scene;
  scene.run_with_lead();
  scene.state.on_program_end(0, 0, scene.now);
  scene.state.on_exit_confirmed();
  scene.pass(RankState::kTreeLimit - milliseconds(1));
  CHECK_FALSE(scene.is_done());
  scene.pass(milliseconds(1));
  CHECK(scene.is_done());
}

TEST_CASE(
    "a rank is done only after two kills in a row found no process, or one if the kernel reports "
    "no child") {
  RankScene scene;
  scene.run_with_lead();
  scene.state.on_program_end(0, 0, scene.now);
  scene.state.on_exit_confirmed();
  SUBCASE("no child") {
    scene.state.on_killed(false, false, scene.now);
    CHECK(scene.is_done());
  }
  SUBCASE("a child that is no living process, such as a traced zombie") {
    scene.state.on_killed(false, true, scene.now);
    CHECK_FALSE(scene.is_done());
    scene.state.on_killed(true, true, scene.now);
    scene.state.on_killed(false, true, scene.now);
    CHECK_FALSE(scene.is_done());
    scene.state.on_killed(false, true, scene.now);
    CHECK(scene.is_done());
  }
}

TEST_CASE("a rank is not done while it copies outputs, and waits longer for lead's confirmation") {
  RankScene scene;
  scene.state.wait_longer_for_confirmation(seconds(60));
  scene.run_with_lead();
  scene.state.on_program_end(1, 0, scene.now);
  scene.is_any_alive = false;
  CHECK_FALSE(scene.state.processes_are_gone_or_given_up(scene.now));
  scene.pass_with_lead(seconds(1));
  CHECK(scene.state.processes_are_gone_or_given_up(scene.now));
  CHECK_FALSE(scene.is_done({.may_still_copy_outputs = true}));
  scene.pass_with_lead(std::chrono::duration_cast<seconds>(kExitConfirmedWithin) + seconds(30));
  CHECK_FALSE(scene.is_done());
  SUBCASE("lead confirms") {
    scene.state.on_exit_confirmed();
  }
  SUBCASE("the time is over") {
    scene.pass_with_lead(seconds(31));
  }
  CHECK(scene.is_done());
}

}  // namespace
}  // namespace dlrun::agent
