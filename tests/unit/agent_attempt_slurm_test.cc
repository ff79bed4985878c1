// Tests what an attempt learns from Slurm: messages about nodes, the end of srun, and whether a
// preempted job is queued again.
#include <doctest/doctest.h>

#include "runtime/agent/controller.h"
#include "tests/unit/attempt_scene.h"

namespace dlrun::agent {
namespace {

AttemptOptions two_node_options() {
  AttemptOptions options;
  options.job_nodes = "n[1-2]";
  return options;
}

TEST_CASE(
    "if the step cannot be launched on one node, that node is the cause, not the ranks that srun "
    "ends elsewhere") {
  Scene scene(two_node_options());
  scene.hello(0, 4);
  scene.hello(1, 4);
  SUBCASE("srun's message comes first") {
    scene.attempt.on_launch_failure("n2", "Invalid job credential", scene.now);
    scene.attempt.on_exit(0, {128 + SIGTERM, SIGTERM, {}}, scene.now);
  }
  SUBCASE("the other node's rank is lost first") {
    scene.attempt.on_lost(0, "closed", scene.now);
    scene.attempt.on_launch_failure("n2", "Invalid job credential", scene.now);
  }
  SUBCASE("the other node's rank ends first") {
    scene.attempt.on_exit(0, {128 + SIGTERM, SIGTERM, {}}, scene.now);
    scene.attempt.on_launch_failure("n2", "Invalid job credential", scene.now);
  }
  scene.attempt.on_exit(1, {128 + SIGTERM, SIGTERM, {}}, scene.now);
  scene.attempt.on_step_end(1, "", scene.now);
  scene.pass(seconds(3));
  REQUIRE(scene.attempt.is_over());
  const auto& end = scene.attempt.end();
  CHECK(end.reason == EndReason::kLaunchFailed);
  CHECK(end.code == 77);
  CHECK(end.message == "the step could not be launched on n2: Invalid job credential");
  CHECK(end.cause == Cause::kNodeFailure);
  CHECK(end.bad_nodes == std::vector<std::string>{"n2"});
  CHECK_FALSE(end.first_failed);
}

TEST_CASE("if the step can be launched on no node, no node is to blame") {
  Scene scene(two_node_options());
  scene.attempt.on_launch_failure("n1", "Plugin initialization failed", scene.now);
  scene.attempt.on_launch_failure("n2", "Plugin initialization failed", scene.now);
  scene.attempt.on_step_end(1, "", scene.now);
  scene.pass(seconds(3));
  REQUIRE(scene.attempt.is_over());
  CHECK(scene.attempt.end().reason == EndReason::kLaunchFailed);
  CHECK(scene.attempt.end().cause == Cause::kFailure);
  CHECK(scene.attempt.end().bad_nodes.empty());
}

TEST_CASE("a rank that failed first stays the cause, whatever srun reports about nodes later") {
  Scene scene(two_node_options());
  scene.all_join(4);
  scene.attempt.on_exit(2, {1, 0, {}}, scene.now);
  scene.attempt.on_launch_failure("n2", "x", scene.now);
  CHECK(scene.attempt.end().reason == EndReason::kRankFailed);
  CHECK(scene.attempt.end().code == 1);
}

TEST_CASE("a node is lost if the controller reports it as bad or has removed it from the job") {
  JobFacts job;
  job.nodes = "n[1,3]";
  CHECK(lost_nodes("n[1-3]", {"n3"}, job) == std::vector<std::string>{"n2", "n3"});
  CHECK(lost_nodes("n1", {}, job).empty());
  job.nodes = "";
  CHECK(lost_nodes("n1", {}, job).empty());
  CHECK(lost_nodes("n1", {"n1"}, job) == std::vector<std::string>{"n1"});
}

TEST_CASE(
    "a success is recorded within 3 s even if srun still waits for an unreachable controller") {
  Scene scene;
  scene.all_join(2);
  scene.attempt.on_exit(0, {}, scene.now);
  scene.attempt.on_exit(1, {}, scene.now);
  scene.pass(seconds(2));
  CHECK_FALSE(scene.attempt.is_over());
  CHECK(*scene.attempt.next_deadline() == scene.now + seconds(1));
  scene.pass(seconds(1));
  REQUIRE(scene.attempt.is_over());
  CHECK_FALSE(scene.attempt.step_is_over());
  CHECK(scene.attempt.end().reason == EndReason::kOk);
  CHECK(scene.actions.count("attempt_end") == 1);
  CHECK(scene.actions.stop_step_calls.empty());
  scene.attempt.on_lead_signal(SIGTERM, scene.now);
  CHECK(scene.actions.count("signal") == 0);
  scene.attempt.on_step_end(0, "", scene.now);
  CHECK(scene.attempt.step_is_over());
}

TEST_CASE(
    "since Slurm 24.05 a job that ends in its grace time is queued again if its preemption mode "
    "has REQUEUE") {
  // A job's mode is that of its partition if PreemptType is preempt/partition_prio, and that of the
  // cluster if PreemptType is preempt/qos.
  const auto config = [](std::string_view version, std::string_view type, std::string_view mode) {
    return fmt::format(
        "PreemptMode             = {}\nPreemptType             = preempt/{}\nSLURM_VERSION         "
        "  = {}\n",
        mode, type, version);
  };
  const std::string_view requeuing_partition =
      "PartitionName=p State=UP PreemptMode=REQUEUE TotalNodes=4";
  const std::string_view cancelling_partition =
      "PartitionName=p State=UP PreemptMode=CANCEL TotalNodes=4";
  CHECK(requeues_preempted(config("24.05.0", "partition_prio", "CANCEL"), requeuing_partition));
  CHECK(requeues_preempted(config("26.05.3", "partition_prio", "REQUEUE"), ""));
  CHECK(requeues_preempted(config("24.11.5", "qos", "GANG,REQUEUE"), cancelling_partition));
  CHECK_FALSE(
      requeues_preempted(config("26.05.3", "partition_prio", "REQUEUE"), cancelling_partition));
  CHECK_FALSE(
      requeues_preempted(config("23.11.9", "partition_prio", "REQUEUE"), requeuing_partition));
  CHECK_FALSE(requeues_preempted(config("22.05.8", "qos", "REQUEUE"), requeuing_partition));
  CHECK_FALSE(requeues_preempted("", requeuing_partition));
}

}  // namespace
}  // namespace dlrun::agent
