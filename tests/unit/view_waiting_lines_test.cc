#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "launcher/runs/cancel_mark.h"
#include "launcher/runs/journal.h"
#include "launcher/view/waiting_lines.h"
#include "tests/temporary_directory.h"

namespace dlrun {
namespace {

TEST_CASE("the jobs of a dependency are read in sbatch's syntax and in squeue's") {
  using Jobs = std::vector<std::string>;
  CHECK(job_ids_of_dependency("afterok:12:13_4+10,afterany:12?singleton") == Jobs{"12", "13_4"});
  CHECK(job_ids_of_dependency("afterok:20_*(failed)") == Jobs{"20"});
  CHECK(job_ids_of_dependency("singleton").empty());
  CHECK(job_ids_of_dependency("").empty());
}

TEST_CASE("a run that was cancelled before its start shows this end without an answer of Slurm") {
  TemporaryDirectory run;
  CHECK(recorded_end_text(run.path()).empty());
  Submission submission;
  submission.token = std::string(32, 'a');
  submission.state = Submission::State::kSubmitted;
  submission.job = {"", "42"};
  REQUIRE(write_submission(run.path(), submission));
  CHECK(recorded_end_text(run.path()).empty());
  REQUIRE(mark_cancelled(run.path()));
  CHECK(recorded_end_text(run.path()) == " (cancelled)");
}

TEST_CASE("the place in the queue is shown only if a job is ahead") {
  CHECK(queue_place_text({"gpu", 12, 3}) ==
        "3 of the 12 pending jobs of partition gpu come before it");
  CHECK(queue_place_text({"gpu,long", 2, 1}) ==
        "1 of the 2 pending jobs of partitions gpu,long comes before it");
  CHECK(queue_place_text({"gpu", 12, 0}).empty());
}

}  // namespace
}  // namespace dlrun
