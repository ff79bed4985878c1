// Tests how ranks end: by kills, failures and signals, and after lead has died or fallen silent.
// Also tests the descriptors that a program inherits, and how lead's helper and an attached
// profiler end. Runs the real dlrun-agent on this machine.

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "tests/ranks/agent_run.h"
#include "tests/time_bounds.h"

namespace dlrun::agent {
namespace {

/// A program whose main thread has ended. Half a second after a TERM it kills itself with SIGKILL.
constexpr std::string_view kSlowToDie = DLRUN_SLOW_TO_DIE;

TEST_CASE(
    "the rank of a program killed with -9 is named, and the other 7, which ignore TERM, end within "
    "2 s") {
  Run run;
  run.start(8, kForeverIgnoringTerm);
  run.wait_for_programs(8);
  const auto began = Clock::now();
  ::kill(run.pid_of_program(3), SIGKILL);
  CHECK(run.wait() == 137);
  CHECK(Clock::now() - began < wall_limit(seconds(2)));
  CHECK(processes_of(run.directory).empty());
  const auto host = run.events("claimed")[0]["host"].get<std::string>();
  CHECK(run.err().find("dlrun: rank 3 on " + host +
                       " was killed by SIGKILL; dlrun ends the other 7 ranks\n") !=
        std::string::npos);
  const auto first = run.events("attempt_end")[0]["first_failed"];
  CHECK(first["rank"] == 3);
  CHECK(first["signal"] == "SIGKILL");
  CHECK(run.events("ended")[0]["code"] == 137);
}

TEST_CASE(
    "if a rank's agent or guard is killed with -9, the rank is named, and none of its processes "
    "stays") {
  // The program's parent is the agent. The agent's parent is the guard.
  for (const int generations : {1, 2}) {
    CAPTURE(generations);
    Run run;
    run.start(8, kForeverIgnoringTerm);
    run.wait_for_programs(8);
    auto victim = run.pid_of_program(3);
    for (int up = 0; up < generations; ++up) victim = parent_of(victim);
    const auto began = Clock::now();
    REQUIRE(victim > 1);
    ::kill(victim, SIGKILL);
    CHECK(run.wait() == 137);
    CHECK(Clock::now() - began < wall_limit(seconds(2)));
    CHECK(processes_of(run.directory).empty());
    CHECK(run.err().find("dlrun: rank 3 on ") != std::string::npos);
    CHECK(run.err().find("was killed by SIGKILL; dlrun ends the other 7 ranks\n") !=
          std::string::npos);
  }
}

TEST_CASE("the first failed rank's exit code is the job's") {
  Run run;
  run.start(4, "[ $DLRUN_RANK = 2 ] && exit 7; " + kForever);
  CHECK(run.wait() == 7);
  CHECK(run.err().find("exited with code 7; dlrun ends the other 3 ranks\n") != std::string::npos);
}

TEST_CASE(
    "a rank whose program was already dying counts as the first that failed, even if its end is "
    "reported last") {
  Run run;
  run.start(2, "[ $DLRUN_RANK = 1 ] && { sleep 1; exit 3; }; exec " + std::string(kSlowToDie));
  // Rank 0 is dying. Rank 1 fails, and its end is reported first.
  CHECK(run.wait() == 137);
  CHECK(run.events("attempt_end")[0]["first_failed"]["rank"] == 0);
  CHECK(run.events("attempt_end")[0]["first_failed"]["signal"] == "SIGKILL");
}

TEST_CASE("ranks that end early with 0 do not end the others") {
  Run run;
  run.start(3, "[ $DLRUN_RANK = 0 ] && { sleep 1; echo last; }; exit 0");
  CHECK(run.wait() == 0);
  CHECK(run.out() == "last\n");
}

TEST_CASE("workers that a program leaves behind end with the program") {
  Run run;
  run.start(1, "setsid bash -c '" + kForever + "' & exit 0");
  CHECK(run.wait() == 0);
  CHECK(processes_of(run.directory).empty());
}

TEST_CASE("Ctrl-C, or INT to lead alone, ends everything within 2 s, and the state is cancelled") {
  for (const bool signals_group : {true, false}) {
    CAPTURE(signals_group);
    Run run;
    run.start(4, kForeverIgnoringTerm);
    run.wait_for_programs(4);
    const auto began = Clock::now();
    if (signals_group) {
      run.signal_group(SIGINT);  // like Ctrl-C in a terminal
    } else {
      run.signal(SIGINT);
    }
    CHECK(run.wait() == 130);
    CHECK(Clock::now() - began < wall_limit(seconds(2)));
    CHECK(processes_of(run.directory).empty());
    CHECK(run.events("ended")[0]["state"] == "cancelled");
    CHECK(run.events("attempt_end")[0]["reason"] == "signalled");
  }
}

TEST_CASE("TERM reaches a program once before any KILL, so that the program can end by itself") {
  Run run;
  run.start(2, "trap 'echo term $DLRUN_RANK; exit 0' TERM; " + kReportPid +
                   "while :; do sleep 0.1 & wait $!; done");
  run.wait_for_programs(2);
  run.signal(SIGTERM);
  CHECK(run.wait() == 143);
  CHECK(run.content_of("logs/attempt-0/rank-0000.log") == "term 0\n");
  CHECK(run.content_of("logs/attempt-0/rank-0001.log") == "term 1\n");
}

TEST_CASE(
    "if lead gets USR1 twice, each program gets it once with --forward-usr1, and never without") {
  for (const bool forwards : {true, false}) {
    CAPTURE(forwards);
    Run run;
    run.start(2,
              "trap 'echo usr1 >> $DLRUN_RUN/usr1-$DLRUN_RANK' USR1; " + kReportPid +
                  "while [ ! -e $DLRUN_RUN/stop ]; do sleep 0.05 & wait $!; done",
              forwards ? std::vector<std::string>{"--forward-usr1"} : std::vector<std::string>{});
    run.wait_for_programs(2);
    run.signal(SIGUSR1);
    run.signal(SIGUSR1);
    CHECK(comes_true([&] { return !run.events("signal").empty(); }));
    if (forwards) {
      CHECK(comes_true(
          [&] { return !run.content_of("usr1-0").empty() && !run.content_of("usr1-1").empty(); }));
    }
    std::ofstream(run.directory / "stop") << "";
    CHECK(run.wait() == 0);
    CHECK(run.content_of("usr1-0") == (forwards ? "usr1\n" : ""));
    CHECK(run.events("signal")[0]["word"] == (forwards ? "checkpoint" : "none"));
  }
}

TEST_CASE("when lead is killed its ranks end by themselves") {
  Run run;
  run.start(4, kForeverIgnoringTerm);
  run.wait_for_programs(4);
  run.signal(SIGKILL);
  CHECK(run.wait() == 137);
  CHECK(comes_true([&] { return processes_of(run.directory).empty(); }, seconds(5)));
}

TEST_CASE(
    "when lead is silent for 10 s its ranks end by themselves, and not within the first 5 s") {
  Run run;
  run.start(2, kForeverIgnoringTerm);
  run.wait_for_programs(2);
  const auto began = Clock::now();
  run.signal(SIGSTOP);
  const auto are_gone = [&] {
    return ::kill(run.pid_of_program(0), 0) != 0 && ::kill(run.pid_of_program(1), 0) != 0;
  };
  CHECK_FALSE(comes_true(are_gone, seconds(5)));
  CHECK(comes_true(are_gone, seconds(15)));
  // The last heartbeat of lead is up to 3 s old when SIGSTOP suspends lead.
  CHECK(Clock::now() - began > seconds(6));
  run.signal(SIGCONT);
  CHECK(run.wait() != 0);
  CHECK(run.content_of("logs/attempt-0/rank-0000.log").empty());
}

TEST_CASE(
    "a rank that gets a TERM and no answer from lead ends its program after 3 s, not after 10 s of "
    "silence") {
  Run run;
  run.start(2, kForeverIgnoringTerm);
  run.wait_for_programs(2);
  const auto program = run.pid_of_program(0);
  run.signal(SIGSTOP);
  const auto began = Clock::now();
  ::kill(parent_of(program), SIGTERM);
  CHECK(comes_true([&] { return ::kill(program, 0) != 0; }, seconds(15)));
  const auto took = Clock::now() - began;
  CHECK(took > milliseconds(2500));  // lead has 2 s to answer, and the program 1 s to end
  CHECK(took < wall_limit(seconds(6)));
  CHECK(::kill(run.pid_of_program(1), 0) == 0);
  run.signal(SIGCONT);
  CHECK(run.wait() != 0);
}

TEST_CASE("a program inherits the open descriptors of its task, because PMI2 needs one") {
  constexpr int kDescriptor = 77;
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const UniqueFd read_end(ends[0]);
  {
    const UniqueFd write_end(ends[1]);
    const UniqueFd inherited(::dup2(write_end.get(), kDescriptor));
    REQUIRE(inherited.is_open());
    Run run;
    run.env.set("HANDED_FD", std::to_string(kDescriptor));
    run.start(2, "echo rank $DLRUN_RANK >&$HANDED_FD");
    CHECK(run.wait() == 0);
  }
  std::array<char, 64> text{};
  const auto got = ::read(read_end.get(), text.data(), text.size());
  const std::string_view output(text.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  CHECK((output == "rank 0\nrank 1\n" || output == "rank 1\nrank 0\n"));
}

TEST_CASE(
    "the helper for notices ends before lead stops waiting for it, even if writing "
    "surroundings.json hangs") {
  Run run;
  const auto bin = run.test_folder / "bin";
  fs::create_directories(bin);
  // The run's helper calls `srun --version` for surroundings.json.
  REQUIRE(write_file_atomic(bin / "srun", "#!/bin/sh\nexec sleep 20\n"));
  REQUIRE(::chmod((bin / "srun").c_str(), 0700) == 0);
  run.env.set("PATH", bin.string() + ":" + run.env.get_or("PATH", "/usr/bin:/bin"));
  run.env.set("SLURM_JOB_NODELIST", "here");
  run.start(1, "true", {"--notify", "completed", "--notify-word", "true"});
  CHECK(run.wait() == 0);
  CHECK(run.err().find("are still being sent") == std::string::npos);
}

TEST_CASE("an attached profiler writes its result after the end of the program") {
  Run run;
  run.env.set("PATH", std::string(DLRUN_SOURCE_DIR) +
                          "/tests/stand_ins:" + run.env.get_or("PATH", "/usr/bin:/bin"));
  run.start(1, "sleep 2; true", {}, {"--profile", "py-spy"});
  CHECK(run.wait() == 0);
  CHECK(run.content_of("profile/attempt-0/rank-0000.speedscope.json")
            .find("profile of bash -c sleep 2; true") == 0);
  CHECK(processes_of(run.directory).empty());
}

}  // namespace
}  // namespace dlrun::agent
