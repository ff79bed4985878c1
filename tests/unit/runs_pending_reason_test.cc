#include <string>

#include <doctest/doctest.h>

#include "launcher/executors/squeue_query.h"
#include "launcher/runs/pending_reason.h"
#include "tests/contains.h"

namespace dlrun {
namespace {

JobReport pending(const char* reason) {
  JobReport report;
  report.reason = reason;
  return report;
}

TEST_CASE("a pending reason is a sentence that begins with Slurm's own word") {
  CHECK(pending_sentence(pending("Resources"), "").starts_with("Resources: it is next in line"));
  CHECK(has(pending_sentence(pending("Priority"), ""), "resources.time"));
  CHECK(has(pending_sentence(pending("JobHeldUser"), ""), "scontrol release"));
  CHECK(has(pending_sentence(pending("launch failed requeued held"), ""), "scontrol release"));
  CHECK(has(pending_sentence(pending("BeginTime"), ""), "that of resources.begin"));
  CHECK(pending_sentence(pending(""), "").empty());
  CHECK(pending_sentence(pending("Dependency"), "afterok:12") ==
        "Dependency: it waits for afterok:12");
  CHECK(pending_sentence(pending("Dependency"), "") == "Dependency: it waits for other jobs");
}

TEST_CASE("a reason with nodes keeps them and is explained") {
  const std::string text =
      pending_sentence(pending("ReqNodeNotAvail, UnavailableNodes:n[1-2]"), "");
  CHECK(text.starts_with("ReqNodeNotAvail, UnavailableNodes:n[1-2]: a node that it needs is"));
}

TEST_CASE(
    "a reason that dlrun does not know is shown as it is, with its control characters escaped") {
  CHECK(pending_sentence(pending("Nodes required for job are DOWN"), "") ==
        "Nodes required for job are DOWN");
  CHECK(pending_sentence(pending("AssociatesOfNobody"), "") == "AssociatesOfNobody");
  CHECK_FALSE(has(pending_sentence(pending("Odd\x1b[2J"), ""), "\x1b"));
}

TEST_CASE(
    "the meaning of a limit of an account or a QOS follows from the parts of the reason's name") {
  CHECK(has(meaning_of_reason("AssocGrpCPUMinutesLimit"), "hours of your account are used up"));
  CHECK(has(meaning_of_reason("AssocGrpGRESMinutes"), "resources.account"));
  CHECK(has(meaning_of_reason("QOSGrpGRESMinutes"), "resources.qos"));
  CHECK(has(meaning_of_reason("AssocGrpCPURunMinutesLimit"), "time limits of the running jobs"));
  CHECK(has(meaning_of_reason("QOSMaxWallDurationPerJobLimit"), "shorter resources.time"));
  CHECK(has(meaning_of_reason("QOSTimeLimit"), "shorter resources.time"));
  CHECK(has(meaning_of_reason("QOSMaxJobsPerUserLimit"), "as many jobs run as its QOS allows"));
  CHECK(has(meaning_of_reason("QOSMaxGRESPerUser"), "your running jobs use all"));
  CHECK(has(meaning_of_reason("AssocGrpNodeLimit"), "the running jobs use all"));
  CHECK(meaning_of_reason("QOSGrpCPULimit").starts_with("the running jobs use all"));
  CHECK(has(meaning_of_reason("QOSMaxCpuPerJobLimit"), "allows a single job"));
  CHECK(has(meaning_of_reason("QOSMaxCpuMinutesPerJobLimit"), "allows a single job"));
  CHECK(has(meaning_of_reason("QOSMinGRES"), "asks for less"));
  CHECK(has(meaning_of_reason("AssocMaxSubmitJobLimit"), "no more submitted jobs"));
}

TEST_CASE("a pending job waits for its turn, and a job that is held or runs does not") {
  CHECK(waits_for_its_turn(pending("Priority")));
  CHECK_FALSE(waits_for_its_turn(pending("JobHeldUser")));
  JobReport running = pending("Priority");
  running.phase = JobPhase::kRunning;
  CHECK_FALSE(waits_for_its_turn(running));
}

TEST_CASE("jobs of a higher priority, or older ones of the same priority, come before a job") {
  const auto place = parse_queue_place("CLUSTER: a\ngpu,long|1000|17\n",
                                       "1000|17\n2000|20\n999|3\n1000|16\n1000|18\nx\n");
  REQUIRE(place);
  CHECK(place->partitions == "gpu,long");
  CHECK(place->pending == 5);
  CHECK(place->ahead == 2);
  CHECK_FALSE(parse_queue_place("", "1|1\n"));
  CHECK_FALSE(parse_queue_place("gpu|N/A|1\n", "1|1\n"));
}

}  // namespace
}  // namespace dlrun
