// Tests the conditions under which a run on this machine starts again, and under which it counts as
// hanging. Runs the real dlrun-agent.

#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "tests/ranks/agent_run.h"

namespace dlrun::agent {
namespace {

using Words = std::vector<std::string>;

/// Returns the causes of the run's restarts, in their order.
std::vector<std::string> causes(const Run& run) {
  std::vector<std::string> words;
  for (const auto& event : run.events("restarting")) words.push_back(event["cause"]);
  return words;
}

TEST_CASE(
    "the run restarts after a failed rank and after a killed rank, and each attempt has its own "
    "number and logs") {
  Run run;
  // Before a rank ends an attempt, it waits until all ranks have printed their line. Otherwise lead
  // could end the others before they print it.
  const auto program = R"(
    all_are_up() {
      until [ $(ls $DLRUN_RUN/up-$DLRUN_ATTEMPT-* | wc -l) = 4 ]; do sleep 0.05; done
    }
    echo attempt $DLRUN_ATTEMPT
    touch $DLRUN_RUN/up-$DLRUN_ATTEMPT-$DLRUN_RANK
    case $DLRUN_ATTEMPT$DLRUN_RANK in
      03) all_are_up; exit 9;;
      11) all_are_up; kill -9 $$;;
      2*) exit 0;;
    esac
  )" + kForever;
  run.start(4, program, {"--retry", "5", "--retry-on", "failure"});
  CHECK(run.wait() == 0);
  CHECK(causes(run) == Words{"failure", "failure"});
  CHECK(run.events("restarting")[1]["left"] == 3);
  CHECK(run.events("ended").size() == 1);
  CHECK(run.events("ended")[0]["state"] == "completed");
  CHECK(run.events("ended")[0]["attempt"] == 2);
  CHECK(trim(run.content_of("attempt")) == "2");
  for (const auto* attempt : {"0", "1", "2"}) {
    CHECK(run.content_of(fmt::format("logs/attempt-{}/rank-0002.log", attempt)) ==
          fmt::format("attempt {}\n", attempt));
  }
  CHECK(processes_of(run.directory).empty());
}

TEST_CASE("each attempt has a secret of its own") {
  // Ranks of an earlier attempt therefore cannot join.
  Run run;
  run.start(
      1, "tr '\\0' '\\n' </proc/$PPID/environ | grep ^DLRUN_SECRET=; exit $((1 - DLRUN_ATTEMPT))",
      {"--retry", "1", "--retry-on", "failure"});
  CHECK(run.wait() == 0);
  const auto first = run.content_of("logs/attempt-0/rank-0000.log");
  const auto second = run.content_of("logs/attempt-1/rank-0000.log");
  CHECK(first.size() == std::string("DLRUN_SECRET=\n").size() + 64);
  CHECK(second.size() == first.size());
  CHECK(first != second);
}

TEST_CASE(
    "a trainer that refused another run's checkpoint folder (exit code 78) does not start again") {
  Run run;
  run.start(1, "exit 78", {"--retry", "3", "--retry-on", "failure"}, {"--bundled"});
  CHECK(run.wait() == 78);
  CHECK(run.events("started").size() == 1);
  CHECK(run.events("ended")[0]["state"] == "failed");
}

TEST_CASE(
    "a job that always fails ends with its exit code after --no-progress attempts without "
    "progress") {
  Run run;
  run.start(2, "[ $DLRUN_RANK = 0 ] || sleep 60; echo '{\"step\": 3}' >$DLRUN_PROGRESS; exit 7",
            {"--retry", "1000", "--retry-on", "failure", "--no-progress", "4"});
  CHECK(run.wait() == 7);
  CHECK(run.events("started").size() == 5);  // the first attempt made progress
  CHECK(run.err().find("at most 996 restarts left; no restart if the next attempt makes no "
                       "progress (retry.no_progress)\n") != std::string::npos);
  CHECK(run.events("ended")[0]["state"] == "failed");
  CHECK(
      run.events("ended")[0]["message"].get<std::string>().find(
          "the run does not start again: 4 attempts in a row got no further (retry.no_progress)") !=
      std::string::npos);
}

TEST_CASE("progress that cannot be parsed causes one warning, which shows the expected form") {
  Run run;
  run.start(1,
            "for i in 1 2 3; do echo step 12 >$DLRUN_PROGRESS; sleep 1.2; done; echo 13 "
            ">$DLRUN_PROGRESS");
  CHECK(run.wait() == 0);
  REQUIRE(run.events("warning").size() == 1);
  const auto message = run.events("warning")[0]["message"].get<std::string>();
  CHECK(message ==
        "the program's DLRUN_PROGRESS cannot be used: 'step 12' is not a JSON object. Write one "
        "whole JSON object each time, such as {\"step\": 120, \"steps\": 5000, \"loss\": 0.5}");
  CHECK(run.err().find(": " + message) != std::string::npos);
}

TEST_CASE("--no-progress does not limit the restarts of a program that never reports progress") {
  Run run;
  run.start(1, "exit 7", {"--retry", "4", "--retry-on", "failure", "--no-progress", "1"});
  CHECK(run.wait() == 7);
  CHECK(run.events("started").size() == 5);
  CHECK(run.err().find("retry.no_progress") == std::string::npos);
  CHECK(run.events("ended")[0]["message"].get<std::string>().find(
            "it has already restarted 4 times (retry.max)") != std::string::npos);
}

TEST_CASE("without --retry, or for a cause that --retry-on does not list, there is one attempt") {
  for (const auto& options : {Words{}, Words{"--retry", "5", "--retry-on", "timeout,hang"}}) {
    Run run;
    run.start(1, "exit 7", options);
    CHECK(run.wait() == 7);
    CHECK(run.events("started").size() == 1);
  }
}

TEST_CASE("TERM ends the run without a restart, although restarts are left") {
  Run run;
  run.start(2, kReportPid + kForever, {"--retry", "5", "--retry-on", "failure"});
  run.wait_for_programs(2);
  run.signal(SIGTERM);
  CHECK(run.wait() == 143);
  CHECK(run.events("started").size() == 1);
  CHECK(run.events("ended")[0]["state"] == "cancelled");
}

TEST_CASE(
    "the run restarts if a rank is suspended for longer than --hang-after, but not if the time is "
    "shorter") {
  Run run;
  run.start(2, kReportPid + "[ $DLRUN_ATTEMPT = 1 ] && exit 0; while :; do echo x; sleep 0.2; done",
            {"--hang-after", "5", "--retry", "1", "--retry-on", "hang"});
  run.wait_for_programs(2);
  const auto program = run.pid_of_program(1);
  ::kill(program, SIGSTOP);
  ::usleep(3'000'000);
  ::kill(program, SIGCONT);
  const auto log_size = run.content_of("logs/attempt-0/rank-0001.log").size();
  CHECK(
      comes_true([&] { return run.content_of("logs/attempt-0/rank-0001.log").size() > log_size; }));
  CHECK(run.events("attempt_end").empty());
  ::kill(program, SIGSTOP);
  const auto suspended_at = Clock::now();
  CHECK(run.wait() == 0);
  CHECK(Clock::now() - suspended_at < seconds(20));
  CHECK(causes(run) == Words{"hang"});
  const auto host = run.events("claimed")[0]["host"].get<std::string>();
  CHECK(run.err().find("dlrun: rank 1 on " + host + ": its process has been suspended for ") !=
        std::string::npos);
  CHECK(run.events("attempt_end")[0]["first_failed"]["rank"] == 1);
}

TEST_CASE("a job that is suspended as a whole does not count as hanging") {
  Run run;
  run.start(2, kReportPid + "while [ ! -e $DLRUN_RUN/stop ]; do echo x; sleep 0.1; done",
            {"--hang-after", "1"});
  run.wait_for_programs(2);
  const auto all = processes_of(run.directory);
  run.signal(SIGSTOP);
  for (const auto pid : all) ::kill(pid, SIGSTOP);
  // The job is suspended for longer than --hang-after plus the time until lead hears of new output.
  ::usleep(8'000'000);
  for (const auto pid : all) ::kill(pid, SIGCONT);
  run.signal(SIGCONT);
  const auto size = run.content_of("logs/attempt-0/rank-0000.log").size();
  CHECK(comes_true(
      [&] { return run.content_of("logs/attempt-0/rank-0000.log").size() > size + 20; }));
  std::ofstream(run.directory / "stop") << "";
  CHECK(run.wait() == 0);
}

TEST_CASE("a suspended program under a wrapper script counts as hanging, too") {
  Run run;
  run.start(1, "bash -c '" + kReportPid + "while :; do echo x; sleep 0.2; done'; exit 3",
            {"--hang-after", "4"});
  ::kill(run.pid_of_program(0), SIGSTOP);
  CHECK(run.wait() == 79);
  CHECK(run.err().find("its process has been suspended for ") != std::string::npos);
}

TEST_CASE(
    "without progress reports, a run counts as hung if no rank prints for --hang-after, but not "
    "while one does") {
  Run run;
  run.start(2, "for i in 1 2 3 4 5 6; do [ $DLRUN_RANK = 0 ] || echo alive; sleep 1; done",
            {"--hang-after", "4"});
  CHECK(run.wait() == 0);
  Run silent;
  silent.start(2, "sleep 100", {"--hang-after", "1"});
  CHECK(silent.wait() == 79);
  CHECK(silent.events("ended")[0]["state"] == "failed");
  CHECK(
      silent.err().find("the run hangs: no rank has printed anything or reported progress for ") !=
      std::string::npos);
}

TEST_CASE(
    "progress that a program writes to a file is recorded, and is used to detect hangs and to "
    "decide retries") {
  Run run;
  run.start(2,
            "[ $DLRUN_RANK = 0 ] || { [ -z \"$DLRUN_PROGRESS\" ] || exit 9; sleep 100; }; "
            "step=$((DLRUN_ATTEMPT * 10)); "
            "for i in 1 2 3 4; do echo noise; echo \"{\\\"step\\\": $((step += 1)), \\\"loss\\\": "
            "0.5}\" >$DLRUN_PROGRESS; "
            "sleep 1; done; while :; do echo noise; sleep 0.5; done",
            {"--hang-after", "3", "--retry", "1", "--retry-on", "hang", "--no-progress", "1"});
  // The second attempt gets further than the first, so --no-progress allows a third; --retry does
  // not. The printed noise is no progress.
  CHECK(run.wait() == 79);
  CHECK(run.events("started").size() == 2);
  CHECK(run.events("progress").back()["step"] == 14);
  CHECK(run.events("progress").back()["loss"] == 0.5);
  CHECK(
      run.err().find(
          "no progress was reported for 3 s (health.hang_after); the latest report was step 4\n") !=
      std::string::npos);
  CHECK(run.events("ended")[0]["message"].get<std::string>().find(
            "it has already restarted once (retry.max)") != std::string::npos);
}

}  // namespace
}  // namespace dlrun::agent
