#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "launcher/view/waiting_lines.h"

namespace dlrun {
namespace {

TEST_CASE("the jobs of a dependency are read in sbatch's syntax and in squeue's") {
  using Jobs = std::vector<std::string>;
  CHECK(job_ids_of_dependency("afterok:12:13_4+10,afterany:12?singleton") == Jobs{"12", "13_4"});
  CHECK(job_ids_of_dependency("afterok:20_*(failed)") == Jobs{"20"});
  CHECK(job_ids_of_dependency("singleton").empty());
  CHECK(job_ids_of_dependency("").empty());
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
