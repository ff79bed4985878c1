#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "launcher/executors/account_use.h"
#include "launcher/view/account_text.h"
#include "launcher/view/start_and_limits.h"
#include "launcher/view/waiting_lines.h"

namespace dlrun {
namespace {

TEST_CASE(
    "a partition's limits are described in one line, by default for the site's default partition") {
  SiteProfile site;
  site.default_partition = "gpu";
  auto& gpu = site.partitions["gpu"];
  gpu.max_time_seconds = 172800;
  gpu.max_nodes = 8;
  gpu.gpus_per_node = 4;
  gpu.gpu_types = {"a100", "1g.5gb"};
  gpu.cpus_per_node = 1;
  gpu.mem_per_node_mib = 512000;
  CHECK(partition_text(site, "") ==
        "gpu: at most 2-00:00:00 and 8 nodes for a job; a node has 4 GPUs (a100, 1g.5gb), 1 CPU, "
        "512000 MiB");
  site.partitions["short"].max_time_seconds = 600;
  CHECK(partition_text(site, "short") == "short: at most 00:10:00 for a job");
  site.partitions["odd"];
  CHECK(partition_text(site, "odd").empty());
  CHECK(partition_text(site, "unknown").empty());
  CHECK(partition_text(SiteProfile{}, "").empty());
}

TEST_CASE("the expected start is called an estimate, and the reason is shown if there is none") {
  JobReport report;
  report.reason = "Priority";
  CHECK(start_text(report) == "not estimated by Slurm yet; pending: Priority");
  report.start = "2026-11-22T03:00:00";
  CHECK(start_text(report) == "about 2026-11-22T03:00:00, as Slurm estimates it now");
  report.phase = JobPhase::kRunning;
  report.nodes = "n[1-2]";
  CHECK(start_text(report) == "now, on n[1-2]");
}

TEST_CASE(
    "a job that can never start in its partition is reported, and one that waits its turn is not") {
  JobReport report;
  for (const char* reason : {"PartitionConfig", "PartitionNodeLimit", "PartitionTimeLimit"}) {
    report.reason = reason;
    CHECK(cannot_start_text(report).find(reason) != std::string::npos);
  }
  for (const char* reason : {"", "Priority", "Resources", "Dependency", "ReqNodeNotAvail"}) {
    report.reason = reason;
    CHECK(cannot_start_text(report).empty());
  }
  report.reason = "PartitionConfig";
  report.phase = JobPhase::kRunning;
  CHECK(cannot_start_text(report).empty());
}

TEST_CASE("the jobs of a dependency are read in sbatch's syntax and in squeue's") {
  using Jobs = std::vector<std::string>;
  CHECK(jobs_of_dependency("afterok:12:13_4+10,afterany:12?singleton") == Jobs{"12", "13_4"});
  CHECK(jobs_of_dependency("afterok:20_*(failed)") == Jobs{"20"});
  CHECK(jobs_of_dependency("singleton").empty());
  CHECK(jobs_of_dependency("").empty());
}

TEST_CASE("the hours of an account have the unit of their resource") {
  const AccountUse use{"proj1", {{"mem", "", 6000, 0, 0}, {"gres/gpu:a100", "ann", 600, 60, 0}}};
  CHECK(
      account_text(use) ==
      "proj1: 9 of 10 GPU-hours (a100) are left for ann; 100 of 100 MiB-hours of memory are left");
}

TEST_CASE("an account is found in sshare's lines in any case, as sbatch finds it") {
  const auto use = parse_sshare(
      "root||||\n proj1||gres/gpu=6000|gres/gpu=600|gres/gpu=60\n proj10||cpu=5||\n", "PROJ1");
  REQUIRE(use);
  CHECK(use->account == "PROJ1");
  REQUIRE(use->limits.size() == 1);
  CHECK(use->limits[0].left_minutes() == 5340);
  CHECK_FALSE(parse_sshare("proj1||cpu=5||\n", "proj"));
}

TEST_CASE("the place in the queue is shown only if a job is ahead") {
  CHECK(place_text({"gpu", 12, 3}) == "3 of the 12 pending jobs of partition gpu come before it");
  CHECK(place_text({"gpu,long", 2, 1}) ==
        "1 of the 2 pending jobs of partitions gpu,long comes before it");
  CHECK(place_text({"gpu", 12, 0}).empty());
}

}  // namespace
}  // namespace dlrun
