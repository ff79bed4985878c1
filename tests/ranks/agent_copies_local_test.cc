// Tests how the agent copies data before and after its program. Runs the real dlrun-agent on this
// machine.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "tests/contains.h"
#include "tests/ranks/agent_run.h"

namespace dlrun::agent {
namespace {

/// A run with a folder `node` for $NODE, and a folder `shared` with data.
struct CopyRun : Run {
  fs::path node = test_folder / "node", shared = test_folder / "shared";

  CopyRun() {
    fs::create_directories(node);
    fs::create_directories(shared / "set");
    std::ofstream(shared / "set/a") << "data of a\n";
    env.set("NODE", node.string());
  }
  [[nodiscard]] std::vector<std::string> stage_options() const {
    return {"--stage", R"({"from":")" + (shared / "set").string() + R"(","to":"$NODE/set"})"};
  }
  [[nodiscard]] static std::vector<std::string> output_options(const std::string& more = "") {
    return {"--output", R"({"from":"$NODE/ckpt","to":"out")" + more + "}"};
  }
};

/// Returns the process that stages data for a rank of this run, once it ignores USR1; 0 before.
pid_t stager_of(const fs::path& run) {
  for (const auto pid : processes_of(run)) {
    const auto process = fs::path("/proc") / std::to_string(pid);
    const auto argv = read_file(process / "cmdline", 1U << 20U).value_or("");
    const auto status = read_file(process / "status", 1U << 20U).value_or("");
    constexpr std::string_view kIgnored = "SigIgn:\t";
    const auto at = status.find(kIgnored);
    if (argv.find(std::string("\0stage\0", 7)) == std::string::npos || at == std::string::npos)
      continue;
    const auto ignored = std::strtoull(status.c_str() + at + kIgnored.size(), nullptr, 16);
    if (((ignored >> (SIGUSR1 - 1)) & 1U) != 0) return pid;
  }
  return 0;
}

TEST_CASE("every rank finds the data that the first rank of the node has staged") {
  CopyRun run;
  run.start(3, "cat $NODE/set/a", {}, run.stage_options());
  CHECK(run.wait() == 0);
  for (int rank = 0; rank < 3; ++rank)
    CHECK(run.content_of("logs/attempt-0/rank-000" + std::to_string(rank) + ".log") ==
          "data of a\n");
  REQUIRE(run.events("staged").size() == 1);
  CHECK(run.events("staged")[0]["files"] == 1);
}

TEST_CASE("a source that is missing ends the run before any program starts") {
  CopyRun run;
  fs::remove_all(run.shared / "set");
  run.start(2, "touch $NODE/started", {}, run.stage_options());
  CHECK(run.wait() == 82);
  CHECK_FALSE(fs::exists(run.node / "started"));
  CHECK(has(run.err(), "cannot stage " + (run.shared / "set").string() + " to $NODE/set"));
}

TEST_CASE(
    "a copy may wait for another run's lock for longer than --join-timeout, and a signal ends the "
    "wait") {
  CopyRun run;
  const UniqueFd lock(
      ::open((run.node / ".set.dlrun-lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  REQUIRE(::flock(lock.get(), LOCK_EX) == 0);
  run.start(2, "true", {"--join-timeout", "1"}, run.stage_options());
  REQUIRE(comes_true([&] { return !run.events("staging").empty(); }));
  SUBCASE("the lock becomes free") {
    // The 2 s are longer than the join timeout.
    CHECK_FALSE(comes_true([&] { return !run.events("attempt_end").empty(); }, seconds(2)));
    REQUIRE(::flock(lock.get(), LOCK_UN) == 0);
    CHECK(run.wait() == 0);
  }
  SUBCASE("lead gets a signal") {
    run.signal(SIGTERM);
    CHECK(run.wait() == 128 + SIGTERM);
    CHECK(run.events("joined").empty());
  }
}

TEST_CASE("USR1, which Slurm sends to all processes of a step, does not end a copy") {
  CopyRun run;
  const UniqueFd lock(
      ::open((run.node / ".set.dlrun-lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  REQUIRE(::flock(lock.get(), LOCK_EX) == 0);
  run.start(1, "true", {}, run.stage_options());
  pid_t stager = 0;
  REQUIRE(comes_true([&] {
    stager = stager_of(run.directory);
    return stager > 0;
  }));
  REQUIRE(::kill(stager, SIGUSR1) == 0);
  REQUIRE(::flock(lock.get(), LOCK_UN) == 0);
  CHECK(run.wait() == 0);
}

TEST_CASE("outputs are copied after the last program of the node has ended") {
  CopyRun run;
  run.start(2,
            "mkdir -p $NODE/ckpt; [ $DLRUN_RANK = 0 ] || sleep 1; "
            "echo $DLRUN_RANK > $NODE/ckpt/$DLRUN_RANK",
            {}, run.output_options());
  CHECK(run.wait() == 0);
  CHECK(run.content_of("out/0") == "0\n");
  CHECK(run.content_of("out/1") == "1\n");
  REQUIRE(run.events("outputs").size() == 1);
  CHECK(run.events("outputs")[0]["files"] == 2);
}

TEST_CASE(
    "outputs are copied after a program was killed, and the run still ends with that program's "
    "exit code") {
  CopyRun run;
  run.start(
      2, "mkdir -p $NODE/ckpt; echo $DLRUN_RANK > $NODE/ckpt/$DLRUN_RANK; " + kForeverIgnoringTerm,
      {}, run.output_options());
  run.wait_for_programs(2);
  ::kill(run.pid_of_program(1), SIGKILL);
  CHECK(run.wait() == 128 + SIGKILL);
  CHECK(run.content_of("out/0") == "0\n");
  CHECK(run.content_of("out/1") == "1\n");
  CHECK(run.events("rank_failed")[0]["rank"] == 1);
  CHECK(processes_of(run.directory).empty());
}

TEST_CASE(
    "a file that was written shortly before its program was killed does not replace its older "
    "copy") {
  CopyRun run;
  run.start(1,
            "mkdir -p $NODE/ckpt; echo whole > $NODE/ckpt/model; touch -d '1 minute ago' "
            "$NODE/ckpt/model; until [ -e $DLRUN_RUN/out/model ]; do sleep 0.1; done; printf torn "
            "> $NODE/ckpt/model; " +
                kReportPid + kForever,
            {}, run.output_options(R"(,"every_s":1)"));
  ::kill(run.pid_of_program(0), SIGKILL);
  CHECK(run.wait() == 128 + SIGKILL);
  CHECK(run.content_of("out/model") == "whole\n");
  CHECK(run.content_of("out/model.unfinished") == "torn");
  CHECK(has(run.err(), "may be incomplete"));
}

}  // namespace
}  // namespace dlrun::agent
