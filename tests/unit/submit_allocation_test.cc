// Tests runs in the allocation of another job: Slurm's answers, the resources that fit, and the
// variables of the script.

#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "launcher/submit/allocation.h"
#include "launcher/submit/allocation_run.h"
#include "tests/contains.h"

namespace dlrun {
namespace {

constexpr const char* kSqueueLine = "42|1000|RUNNING|2|8|gpu|2026-11-25T21:00:00|n[1-2]\n";
constexpr const char* kScontrolText =
    "JobId=42 JobName=a TRES=b\n   UserId=me(1000) Restarts=1\n"
    "   TRES=cpu=8,mem=16G,node=2,billing=8,gres/gpu=4\n   JOB_GRES=gpu:4\n"
    "   Command=/x\n   Comment=x AllocTRES=cpu=64,mem=512G,gres/gpu=64 Restarts=9\n";

Allocation allocation_of(const char* scontrol_text = kScontrolText) {
  auto parsed = parse_allocation(kSqueueLine, scontrol_text, "42", 1000);
  if (!parsed) FAIL(parsed.error().message);
  return std::move(*parsed);
}

Experiment experiment_of(const std::string& resources) {
  LoadRequest request;
  request.file = "exp.yaml";
  request.text = "resources: {time: 5m, " + resources + "}\nlaunch: {command: [./x]}\n";
  request.current_dir = "/exp";
  auto loaded = load_spec(request);
  if (!loaded) FAIL(format_diagnostics(loaded.error()));
  PlanInputs inputs{"/runs", "/runs/.agents/dlrun-agent", "/runs/.agents/dlrun-trainer"};
  inputs.uses_existing_allocation = true;
  auto plan = make_plan(*loaded, inputs);
  if (!plan) FAIL(format_diagnostics(plan.error()));
  return Experiment{std::move(*loaded), std::move(*plan), std::move(request), std::move(inputs)};
}

TEST_CASE("an allocation is read from squeue and scontrol, and a missing number stays unknown") {
  const Allocation whole = allocation_of();
  CHECK(whole.job == "42");
  CHECK(whole.nodes == 2);
  CHECK(whole.cpus == 8);
  CHECK(whole.gpus == 4);
  CHECK(whole.memory_mib == 16 * 1024);
  CHECK(whole.node_list == "n[1-2]");
  CHECK(whole.end == "2026-11-25T21:00:00");
  CHECK(whole.restarts == 1);
  const Allocation bare =
      allocation_of("JobId=42 JobName=x\n   UserId=me(1)\n   TRES=cpu=8,node=2\n");
  CHECK_FALSE(bare.gpus.has_value());
  CHECK_FALSE(bare.memory_mib.has_value());
  CHECK(allocation_of("TRES=cpu=8\n JOB_GRES=(null)\n").gpus == 0);
  CHECK(allocation_of("TRES=cpu=8\n JOB_GRES=gpu:a100:3\n").gpus == 3);
  CHECK(allocation_of("ReqTRES=cpu=1,mem=1G AllocTRES=cpu=8,mem=2G\n").memory_mib == 2048);
}

TEST_CASE("only a running job of the user is accepted as an allocation") {
  const auto error_of = [](std::string_view squeue_line) {
    const auto parsed = parse_allocation(squeue_line, kScontrolText, "42", 1000);
    return parsed ? std::string("accepted") : parsed.error().message;
  };
  CHECK(has(error_of(""), "Slurm has no running job 42"));
  CHECK(has(error_of("42|1001|RUNNING|2|8|gpu|x|n[1-2]\n"), "belongs to another user (id 1001)"));
  CHECK(has(error_of("42|1000|PENDING|2|8|gpu|x|\n"), "job 42 is PENDING"));
  CHECK(has(error_of("42|1000|COMPLETING|2|8|gpu|x|n1\n"), "job 42 is COMPLETING"));
  CHECK(has(error_of("42|1000|RUNNING|0|8|gpu|x|n1\n"), "squeue does not describe job 42"));
  CHECK(has(error_of("4 2|1000|RUNNING|1|8|gpu|x|n1\n"), "squeue does not describe job 42"));
  CHECK(has(error_of("a b c\n"), "Slurm has no running job"));
}

TEST_CASE(
    "only requested resources that do not fit the allocation cause errors, each with its line") {
  const Allocation allocation = allocation_of();
  CHECK(unfulfilled_requests(
            experiment_of("nodes: 2, tasks_per_node: 2, cpus_per_task: 2, gpus_per_node: 2, "
                          "mem: 8G, nodelist: n2"),
            allocation)
            .empty());
  CHECK(unfulfilled_requests(experiment_of("nodes: \"2-4\""), allocation).empty());
  const std::string text = format_diagnostics(unfulfilled_requests(
      experiment_of("nodes: 3, tasks_per_node: 3, cpus_per_task: 1, gpus_per_node: 3, mem: "
                    "8G, nodelist: n7"),
      allocation));
  CHECK(has(text,
            "error: resources.nodes: the run needs 3 nodes, but there are 2 (n[1-2]) in job 42"));
  CHECK(text.starts_with("exp.yaml:1:"));
  CHECK(has(text, "error: resources.cpus_per_task: the ranks need 9 CPUs, but there are 8 in job"));
  CHECK(has(text, "error: resources.gpus_per_node: the run needs 9 GPUs, but there are 4 in job"));
  CHECK(has(text, "error: resources.mem: the run needs 24576 MiB, but there are 16384 MiB in job"));
  CHECK(has(text, "error: resources.nodelist: n7 is not a node of job 42"));
  CHECK(unfulfilled_requests(experiment_of("nodes: 1, gpus_per_node: 8"),
                             allocation_of("TRES=cpu=8\n"))
            .empty());
}

TEST_CASE("a sweep in the allocation of another job is refused") {
  Experiment sweep = experiment_of("nodes: 1");
  SweptKey key;
  key.key = "resources.nodes";
  key.values.push_back({"resources.nodes", "1", {}});
  sweep.loaded.spec.sweep.parameters.push_back(std::move(key));
  const auto fit = check_fit(sweep, allocation_of());
  REQUIRE_FALSE(fit.has_value());
  CHECK(has(fit.error().message, "an allocation has no queue"));
}

TEST_CASE(
    "the step in another job's allocation has the run's requests, and lead gets the option "
    "--borrowed") {
  const Experiment experiment =
      experiment_of("nodes: 1, tasks_per_node: 2, gpus_per_node: 2, mem: 4G");
  std::string step, lead;
  for (const PlannedOption& option : experiment.plan.step) step += option.word() + " ";
  for (const PlannedOption& option : experiment.plan.lead_options) lead += option.word() + " ";
  CHECK(has(step, "--nodes=1 "));
  CHECK(has(step, "--ntasks=2 "));
  CHECK(has(step, "--ntasks-per-node=2 "));
  CHECK(has(step, "--mem=4G "));
  CHECK(has(step, "gpu"));
  CHECK(has(lead, "--borrowed"));
}

TEST_CASE(
    "set_allocation_variables() describes the allocation in the SLURM_* variables of the script") {
  Env env;
  set_allocation_variables(env, experiment_of("nodes: 1, tasks_per_node: 2").plan, allocation_of(),
                           "alpine");
  CHECK(env.get("SLURM_JOB_ID") == "42");
  CHECK(env.get("SLURM_JOB_NODELIST") == "n[1-2]");
  CHECK(env.get("SLURM_JOB_NUM_NODES") == "2");
  CHECK(env.get("SLURM_CPUS_ON_NODE") == "4");
  CHECK(env.get("SLURM_JOB_CPUS_PER_NODE") == "4(x2)");
  CHECK(env.get("SLURM_TASKS_PER_NODE") == "2(x2)");
  CHECK(env.get("SLURM_NTASKS") == "2");
  CHECK(env.get("SLURM_CLUSTER_NAME") == "alpine");
  CHECK(env.get("SLURM_RESTART_COUNT") == "1");
}

}  // namespace
}  // namespace dlrun
