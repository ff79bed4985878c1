#include <string>

#include <doctest/doctest.h>

#include "launcher/view/start_and_limits.h"

namespace dlrun {
namespace {

TEST_CASE(
    "the limits of a partition, or of the site's default partition if none is named, are described "
    "in one line") {
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

TEST_CASE(
    "a pending job shows the estimate of its start or the reason for waiting, and a running job "
    "shows its nodes") {
  JobReport report;
  report.reason = "Priority";
  CHECK(start_text(report) ==
        "when Slurm finds room for the job; it has no estimate yet; pending: Priority");
  report.reason = "Dependency";
  CHECK(start_text(report) == "after the jobs that it waits for");
  report.reason.clear();
  CHECK(start_text(report, "afterok:12") == "after the jobs that it waits for");
  CHECK(start_text(report) == "when Slurm finds room for the job; it has no estimate yet");
  report.reason = "Priority";
  CHECK(start_text(report, "afterok:12") ==
        "when Slurm finds room for the job; it has no estimate yet; pending: Priority");
  report.start = "2026-11-22T03:00:00";
  CHECK(start_text(report) == "about 2026-11-22T03:00:00, as Slurm estimates it now");
  report.phase = JobPhase::kRunning;
  report.nodes = "n[1-2]";
  CHECK(start_text(report) == "now, on n[1-2]");
}

TEST_CASE(
    "a pending job that cannot start in its partition is reported, and a job that waits for "
    "its turn is not") {
  JobReport report;
  for (const char* reason : {"PartitionConfig", "PartitionNodeLimit", "PartitionTimeLimit"}) {
    report.reason = reason;
    CHECK(cannot_start_text(report).find(reason) != std::string::npos);
  }
  CHECK(cannot_start_text(report) ==
        "Slurm has accepted the job, but with its present request it cannot start "
        "(PartitionTimeLimit): its time limit is longer than its partition allows; set a shorter "
        "resources.time, or another resources.partition");
  for (const char* reason : {"", "Priority", "Resources", "Dependency", "ReqNodeNotAvail"}) {
    report.reason = reason;
    CHECK(cannot_start_text(report).empty());
  }
  report.reason = "PartitionConfig";
  report.phase = JobPhase::kRunning;
  CHECK(cannot_start_text(report).empty());
}

}  // namespace
}  // namespace dlrun
