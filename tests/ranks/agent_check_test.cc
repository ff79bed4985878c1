// Tests the ranks' check of the collectives before their programs start (health.preflight), with
// the real dlrun-agent and dlrun-trainer.

#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "tests/ranks/agent_run.h"

namespace dlrun::agent {
namespace {

/// Puts the agent into `run.test_folder`, and a wrapper in place of the trainer beside it. In each
/// rank's check the wrapper runs `script` and then, unless `script` exits, starts the real trainer
/// with a time limit of 3 s.
void wrap_trainer(Run& run, const std::string& script) {
  run.agent = (run.test_folder / "dlrun-agent").string();
  fs::copy_file(kAgent, run.agent);
  const auto trainer = run.test_folder / "dlrun-trainer";
  std::ofstream(trainer) << "#!/bin/bash\n"
                         << script << "\nexec " << DLRUN_TRAINER << " \"$@\" --timeout 3\n";
  fs::permissions(trainer, fs::perms::owner_all);
}

TEST_CASE("if the collective works, the programs start after all ranks have passed the check") {
  Run run;
  wrap_trainer(run,
               "touch $DLRUN_RUN/checks-$DLRUN_RANK; echo \"$@\" >$DLRUN_RUN/options; "
               "sleep $((DLRUN_RANK == 1))");
  run.start(3, "ls $DLRUN_RUN | grep -c checks-", {}, {"--preflight", "disk,gloo"});
  CHECK(run.wait() == 0);
  for (const char* rank : {"0", "1", "2"})
    CHECK(run.content_of(fmt::format("logs/attempt-0/rank-000{}.log", rank)) == "3\n");
  CHECK(run.content_of("options") == "preflight --backend gloo --timeout 60\n");
  REQUIRE(run.events("checked").size() == 1);
  CHECK(run.events("checked")[0]["ranks"] == 3);
}

TEST_CASE(
    "an all-reduce slower than the site expects ends the run, with the measured and the expected "
    "rate") {
  Run run;
  wrap_trainer(run, "");
  SUBCASE("the ranks of a node are too slow, and the node is named") {
    run.start(2, "touch $DLRUN_RUN/started", {},
              {"--preflight", "fabric,gloo", "--fabric", "node_all_reduce=1000000"});
    CHECK(run.wait() == 80);
    const auto message = run.events("ended")[0]["message"].get<std::string>();
    CHECK(message.find("is not fit for the job: gloo: all-reduce among the ranks of the node is "
                       "slower than the site expects [bus bandwidth ") != std::string::npos);
    CHECK(message.find(" GB/s with 32 MiB, expected 1000000 GB/s]") != std::string::npos);
  }
  SUBCASE("all ranks together are too slow") {
    run.start(2, "touch $DLRUN_RUN/started", {},
              {"--preflight", "fabric,gloo", "--fabric", "all_reduce=1000000"});
    CHECK(run.wait() == 80);
    CHECK(run.events("ended")[0]["message"].get<std::string>().find(
              "all-reduce among all ranks is slower than the site expects") != std::string::npos);
  }
  CHECK_FALSE(fs::exists(run.directory / "started"));
}

TEST_CASE("a rank that does not reach the collective is named, and no program starts") {
  Run run;
  wrap_trainer(run, "[ $DLRUN_RANK != 2 ] || exec sleep 100");
  run.start(3, "touch $DLRUN_RUN/started", {}, {"--preflight", "gloo"});
  CHECK(run.wait() == 80);
  const auto message = run.events("ended")[0]["message"].get<std::string>();
  CHECK(message.starts_with("rank 2 on "));
  CHECK(message.find(
            " is not fit for the job: rank 2 did not reach the check of collectives (gloo: ") !=
        std::string::npos);
  CHECK_FALSE(fs::exists(run.directory / "started"));
  CHECK(processes_of(run.directory).empty());
}

TEST_CASE("if a rank's check ends without a report, this rank has failed the check") {
  Run run;
  wrap_trainer(run, "[ $DLRUN_RANK != 1 ] || exit 9; exec sleep 100");
  run.start(2, "touch $DLRUN_RUN/started", {}, {"--preflight", "gloo"});
  CHECK(run.wait() == 80);
  CHECK(run.err().find("is not fit for the job: gloo: its check ended with code 9; dlrun ends the "
                       "other rank\n") != std::string::npos);
  CHECK_FALSE(fs::exists(run.directory / "started"));
}

TEST_CASE("without a GPU the check of NCCL fails, and no program starts") {
  Run run;
  run.env.set("CUDA_VISIBLE_DEVICES", "");
  wrap_trainer(run, "");
  run.start(2, "touch $DLRUN_RUN/started", {}, {"--preflight", "nccl"});
  CHECK(run.wait() == 80);
  CHECK(run.err().find(" is not fit for the job: nccl: ") != std::string::npos);
  CHECK_FALSE(fs::exists(run.directory / "started"));
}

}  // namespace
}  // namespace dlrun::agent
