// Tests that inspect_all() returns the statuses of all other runs if a query fails for some runs.
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "common/env.h"
#include "common/files.h"
#include "launcher/runs/status.h"
#include "tests/temporary_directory.h"

using namespace dlrun;
namespace fs = std::filesystem;

namespace {

/// Two clusters. The controller of the cluster `broken` does not answer, and job 43 runs on the
/// other one.
struct TwoClusters {
  TemporaryDirectory folder;
  Env env;
  TwoClusters() {
    write_program(
        "squeue",
        "case \"$*\" in *'-M broken'*) echo 'slurm_load_jobs error: Unable to contact slurm "
        "controller (connect failure)' >&2; exit 1;; esac\n"
        "echo '43|RUNNING|None|n1|N/A|(null)|(null)'");
    write_program("sacct", "exit 0");
    env.set("PATH", folder.path().string() + ":/usr/bin:/bin");
  }
  void write_program(const std::string& name, const std::string& body) const {
    std::ofstream(folder / name) << "#!/bin/sh\n" << body << "\n";
    fs::permissions(folder / name, fs::perms::owner_all);
  }
  /// Creates a run that Slurm has accepted as this job.
  [[nodiscard]] fs::path make_run(const std::string& name, JobId job) const {
    const fs::path run = folder / name;
    fs::create_directories(run);
    Submission submission;
    submission.token = std::string(32, 'a');
    submission.state = Submission::State::kSubmitted;
    submission.job = std::move(job);
    REQUIRE(write_submission(run, submission).has_value());
    return run;
  }
  [[nodiscard]] std::vector<Result<RunStatus>> inspect(const std::vector<fs::path>& runs) const {
    auto statuses = RunInspector(env).inspect_all(runs);
    REQUIRE(statuses.size() == runs.size());
    for (const auto& status : statuses) REQUIRE(status.has_value());
    return statuses;
  }
};

}  // namespace

TEST_CASE_FIXTURE(TwoClusters,
                  "a cluster that does not answer does not affect the runs of other clusters") {
  const auto statuses = inspect({make_run("a", {"broken", "42"}), make_run("b", {"whole", "43"})});
  CHECK(is_unreachable(*statuses[0]));
  CHECK(statuses[0]->facts.why_unreachable.find("Unable to contact") != std::string::npos);
  CHECK_FALSE(is_unreachable(*statuses[1]));
  CHECK(statuses[1]->state == RunState::kRunning);
}

TEST_CASE_FIXTURE(TwoClusters,
                  "a run whose job has a malformed id does not affect the other runs") {
  const auto array = make_run("array", {"", "42"});
  fs::create_directories(array / "point");
  // The number of this task is too long for an id.
  REQUIRE(write_file_atomic(array / "point" / "submission.json", "{\"task\":99999999999}\n"));
  const auto statuses = inspect({array / "point", make_run("b", {"", "43"})});
  CHECK(statuses[0]->facts.why_unreachable.find("is not the id of a Slurm job") !=
        std::string::npos);
  CHECK(statuses[1]->facts.why_unreachable.empty());
  CHECK(statuses[1]->state == RunState::kRunning);
}
