// Tests the plan and the script of a job with components.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "common/text.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/render.h"
#include "launcher/plan/script_resources.h"
#include "launcher/spec/spec_keys.h"
#include "tests/contains.h"
#include "tests/unit/load_checks.h"

namespace dlrun {
namespace {

constexpr std::string_view kThreeComponents =
    "resources: {time: 1h, cpus_per_task: 2, mem: 2G}\nlaunch: {command: [run]}\n"
    "components:\n"
    "  - {name: server, role: service, gpus_per_node: 2, ready: {http: /health, timeout: 1m}, "
    "retry: {max: 1}, launch: {command: [serve, --port, '{port}']}}\n"
    "  - {name: trainer, nodes: 2, gpus_per_node: 4, after: server}\n"
    "  - {name: eval-1, shares: server, mem: 1G, after: [server, trainer]}\n";

/// Returns the plan of a spec. Fails the test if the spec or the plan is refused.
LaunchPlan components_plan(std::string_view text, Target target = Target::kSlurm) {
  LoadRequest request;
  request.file = "exp.yaml";
  request.text = std::string(text);
  request.current_dir = "/exp";
  auto plan = make_plan(loaded(request), {"/runs", "/runs/.agents/h/dlrun-agent",
                                          "/runs/.agents/h/dlrun-trainer", target});
  if (!plan) FAIL(format_diagnostics(plan.error()));
  return std::move(*plan);
}

/// Returns the diagnostics of a plan that must be refused. Fails the test if the plan is accepted.
std::string plan_refusal(std::string_view text, Target target = Target::kSlurm,
                         bool uses_existing_allocation = false) {
  LoadRequest request;
  request.file = "exp.yaml";
  request.text = std::string(text);
  request.current_dir = "/exp";
  PlanInputs inputs{"/runs", "/runs/.agents/h/dlrun-agent", "/runs/.agents/h/dlrun-trainer",
                    target};
  inputs.uses_existing_allocation = uses_existing_allocation;
  const auto plan = make_plan(loaded(request), inputs);
  REQUIRE_FALSE(plan.has_value());
  return format_diagnostics(plan.error());
}

std::string words(const std::vector<PlannedOption>& options) {
  std::string text;
  for (const PlannedOption& option : options) text += (text.empty() ? "" : " ") + option.word();
  return text;
}

TEST_CASE("a job with components uses the trainer if one component does") {
  CHECK_FALSE(components_plan(kThreeComponents).uses_trainer());
  CHECK(components_plan("resources: {time: 1h, tasks_per_node: 1}\nlaunch: {preset: trainer}\n"
                        "train: {data: {dataset: digits}}\n"
                        "components:\n"
                        "  - {name: learner}\n"
                        "  - {name: server, launch: {preset: plain, command: [serve]}}\n")
            .uses_trainer());
}

TEST_CASE(
    "a job with components requests for every node the most CPUs, GPUs and memory that any node "
    "needs") {
  const LaunchPlan plan = components_plan(kThreeComponents);
  const std::string all = words(plan.directives);
  INFO(all);
  CHECK(has(all, "--nodes=3 --ntasks-per-node=1 --cpus-per-task=8 --gpus-per-node=4 --mem=3G "));
  CHECK(plan.later_parts.empty());
  CHECK(plan.requested.nodes == 3);
  CHECK(plan.requested.gpus == 12);
  CHECK(plan.requested.time_seconds == 3600);
}

TEST_CASE("each step asks for its own nodes, tasks, CPUs, GPUs and memory") {
  const LaunchPlan plan = components_plan(kThreeComponents);
  REQUIRE(plan.components.size() == 3);
  CHECK(words(plan.components[0].plan.step) ==
        "--export=ALL --kill-on-bad-exit=1 --exact --nodes=1 --ntasks=1 --ntasks-per-node=1 "
        "--cpus-per-task=2 --gres=gpu:2 --mem=2G");
  CHECK(words(plan.components[1].plan.step) ==
        "--export=ALL --kill-on-bad-exit=1 --exact --nodes=2 --ntasks=8 --ntasks-per-node=4 "
        "--cpus-per-task=2 --gres=gpu:4 --mem=2G");
  // Without --gpus-per-node=0, the step would take all GPUs of the node.
  CHECK(words(plan.components[2].plan.step) ==
        "--export=ALL --kill-on-bad-exit=1 --exact --nodes=1 --ntasks=1 --ntasks-per-node=1 "
        "--cpus-per-task=2 --gpus-per-node=0 --mem=1G");
}

TEST_CASE("lead gets the role, the order and the nodes of each component") {
  const LaunchPlan plan = components_plan(kThreeComponents);
  CHECK(words(plan.components[0].options) ==
        "--component=server --role=service --ready-http=/health --ready-timeout=60 "
        "--component-retry=1 --component-nodes=1 --component-ranks=1 --component-first-node=0 "
        "--port-count=1");
  CHECK(words(plan.components[1].options) ==
        "--component=trainer --role=main --after=server --component-nodes=2 --component-ranks=8 "
        "--component-first-node=1");
  CHECK(words(plan.components[2].options) ==
        "--component=eval-1 --role=main --after=server --after=trainer --component-nodes=1 "
        "--component-ranks=1 --component-first-node=0");
}

TEST_CASE(
    "the script starts one lead with all components, and unsets the variables that describe the "
    "whole job's request") {
  const std::string script = *render_script(components_plan(kThreeComponents));
  INFO(script);
  CHECK(has(script, "\nunset SLURM_NTASKS SLURM_NPROCS "));
  CHECK(has(script, "\"${!SLURM_GPUS@}\" \"${!SLURM_MEM_PER_@}\"\n"));
  CHECK(
      script.ends_with("exec \"$dlrun_agent\" lead --runs /runs --name exp \\\n"
                       "  \"${dlrun_component_server[@]}\" -- \"${dlrun_step_server[@]}\" "
                       "\"${dlrun_rank_server[@]}\" -- \"${dlrun_program_server[@]}\" \\\n"
                       "  +++ \"${dlrun_component_trainer[@]}\" -- \"${dlrun_step_trainer[@]}\" "
                       "\"${dlrun_rank_trainer[@]}\" -- \"${dlrun_program_trainer[@]}\" \\\n"
                       "  +++ \"${dlrun_component_eval_1[@]}\" -- \"${dlrun_step_eval_1[@]}\" "
                       "\"${dlrun_rank_eval_1[@]}\" -- \"${dlrun_program_eval_1[@]}\"\n"));
  CHECK(count(script, "exec \"$dlrun_agent\" lead") == 2);  // the EXIT trap has the other one
  const Requested asked = requested_of_script(script);
  CHECK(asked.gpus == 12);
}

constexpr std::string_view kTwoParts =
    "resources: {time: 1h, cpus_per_task: 2, exclude: n9}\nlaunch: {command: [run]}\n"
    "slurm: {mail-type: ALL}\ncomponents:\n"
    "  - {name: ps, role: service, partition: cpu, nodes: 3, mem: 1G}\n"
    "  - {name: worker, partition: gpu, nodes: 2, gpus_per_node: 4, after: ps}\n";

TEST_CASE("a heterogeneous job has one block of #SBATCH lines for each part, the main one first") {
  const LaunchPlan plan = components_plan(kTwoParts);
  REQUIRE(plan.later_parts.size() == 1);
  CHECK(has(words(plan.directives), "--partition=gpu --nodes=2 --ntasks-per-node=4 "));
  CHECK(words(plan.later_parts[0]) ==
        "--partition=cpu --nodes=3 --ntasks-per-node=1 --cpus-per-task=2 --mem=1G --time=01:00:00 "
        "--exclude=n9");
  const std::string script = *render_script(plan);
  const auto first = script.find("--mail-type"), border = script.find("\n#SBATCH hetjob\n");
  CHECK((first < border && border < script.find("--partition=cpu")));
  const Requested asked = requested_of_script(script);
  CHECK(asked.nodes == plan.requested.nodes);
  CHECK(asked.tasks == plan.requested.tasks);
  CHECK(asked.gpus == plan.requested.gpus);
  CHECK(asked.cpus == 2 * 8 + 3 * 2);
}

TEST_CASE(
    "a later part of a heterogeneous job has the options about its nodes, not those about the "
    "whole job") {
  std::size_t planned_key_count = 0;
  for (const KeyRow& row : spec_keys()) {
    if (row.option.target != KeyTarget::kSbatch || row.option.name.empty()) continue;
    CAPTURE(row.path);
    LoadRequest request;
    request.file = "exp.yaml";
    request.text =
        "resources: {time: 1h, cpus_per_task: 1}\nlaunch: {command: [run]}\nhetjob: true\n"
        "components: [{name: a}, {name: b}]\n";
    request.set_arguments = {fmt::format("{}={}", row.path, row.example)};
    request.current_dir = "/exp";
    const auto spec = load_spec(request);
    if (!spec) continue;  // the key cannot be combined with components
    const auto plan = make_plan(*spec, {"/runs", "/bin/true", "/bin/true", Target::kSlurm});
    if (!plan) FAIL(format_diagnostics(plan.error()));
    REQUIRE(plan->later_parts.size() == 1);
    const auto has_option = [&](const std::vector<PlannedOption>& options) {
      return std::any_of(options.begin(), options.end(), [&](const PlannedOption& option) {
        return option.option == row.option.name;
      });
    };
    CHECK(has_option(plan->directives));
    CHECK_MESSAGE(has_option(plan->later_parts[0]) == (row.option.scope != SbatchScope::kWholeJob),
                  row.option.name, ": see SbatchScope in spec_keys.h");
    ++planned_key_count;
  }
  CHECK(planned_key_count >= 20);
}

TEST_CASE(
    "every part of a heterogeneous job has the options of `slurm` about nodes, and only the first "
    "part has the other options") {
  const LaunchPlan plan = components_plan(
      "resources: {time: 1h, cpus_per_task: 1}\nlaunch: {command: [run]}\nhetjob: true\n"
      "slurm: {tmp: 5G, contiguous: true, mail-type: END, nice: 10}\n"
      "components: [{name: a}, {name: b}]\n");
  REQUIRE(plan.later_parts.size() == 1);
  CHECK(has(words(plan.directives), " --tmp=5G --contiguous --mail-type=END --nice=10 "));
  CHECK(words(plan.later_parts[0]).ends_with(" --tmp=5G --contiguous"));
}

TEST_CASE("a step of a heterogeneous job gets the number of its part instead of its nodes") {
  const LaunchPlan plan = components_plan(kTwoParts);
  REQUIRE(plan.components.size() == 2);
  CHECK(plan.components[0].name == "worker");
  CHECK(has(words(plan.components[0].options), " --component-ranks=8 --het-group=0"));
  CHECK(has(words(plan.components[1].options), " --component-ranks=3 --het-group=1"));
  for (const PlannedComponent& component : plan.components) {
    CHECK_FALSE(has(words(component.options), "first-node"));
    CHECK_FALSE(has(words(component.plan.step), "--exact"));
  }
  CHECK(has(words(plan.components[1].plan.step), "--gpus-per-node=0"));
}

TEST_CASE("the container of a component without GPUs sees no GPU, even if the job has GPUs") {
  for (const char* job : {"exclusive: true}", "partition: p}\nslurm: {gpus-per-socket: 2}"}) {
    const auto script = [&](std::string_view runtime, std::string_view gpus) {
      return *render_script(
          components_plan(fmt::format("launch: {{command: [run]}}\n"
                                      "container: {{runtime: {}, image: /a.sqsh}}\n"
                                      "components:\n  - {{name: a{}}}\n  - {{name: b}}\n"
                                      "resources: {{time: 1h, cpus_per_task: 1, {}\n",
                                      runtime, gpus, job)));
    };
    CAPTURE(job);
    CHECK(has(script("pyxis", ""), "export NVIDIA_VISIBLE_DEVICES=void"));
    CHECK(has(script("pyxis", ", gpus_per_node: 1"), "export NVIDIA_VISIBLE_DEVICES=all"));
    CHECK_FALSE(has(script("apptainer", ""), "--nv"));
  }
}

TEST_CASE("a component's own variables and preset reach only its ranks") {
  const LaunchPlan plan = components_plan(
      "resources: {time: 1m, cpus_per_task: 1}\nenvironment: {vars: {A: '1', B: '2'}}\n"
      "components:\n"
      "  - {name: a, launch: {preset: torch, command: [x]}, vars: {B: '{3}', C: '4'}}\n"
      "  - {name: b, launch: {command: [y]}}\n");
  const auto value = [](const std::vector<PlannedVariable>& variables, std::string_view name) {
    for (const PlannedVariable& one : variables) {
      if (one.name == name) return one.value;
    }
    return std::string("(none)");
  };
  CHECK(value(plan.prologue.vars, "B") == "2");
  CHECK(value(plan.prologue.vars, "C") == "(none)");
  CHECK(value(plan.components[0].plan.rank_vars, "B") == "{3}");
  CHECK(value(plan.components[0].plan.rank_vars, "C") == "4");
  CHECK(value(plan.components[0].plan.rank_templates, "MASTER_PORT") == "{master_port}");
  CHECK(plan.components[1].plan.rank_vars.empty());
  CHECK(plan.components[1].plan.rank_templates.empty());
  CHECK(has(*render_script(plan), "  --env 'B={{3}}'"));
}

TEST_CASE("under pyxis each component can have its own image, and its container has its own name") {
  const std::string common =
      "resources: {time: 1m, cpus_per_task: 1}\nlaunch: {command: [x]}\n"
      "container: {runtime: pyxis, image: one, name: keep}\ncomponents:\n";
  const LaunchPlan plan =
      components_plan(common + "  - {name: a}\n  - {name: b, container: {image: two}}\n" +
                      "  - {name: c, container: {runtime: none, image: null, name: null}}\n");
  CHECK(has(words(plan.components[0].plan.step), "--container-image=one"));
  CHECK(has(words(plan.components[0].plan.step), "--container-name=keep-a"));
  CHECK(has(words(plan.components[1].plan.step), "--container-image=two"));
  CHECK(has(words(plan.components[1].plan.step), "--container-name=keep-b"));
  CHECK_FALSE(has(words(plan.components[2].plan.step), "--container"));
}

TEST_CASE(
    "apptainer enters one container for all components, and different containers are refused") {
  const std::string common =
      "resources: {time: 1m, cpus_per_task: 1}\nlaunch: {command: [x]}\n"
      "container: {runtime: apptainer, image: /one.sif}\ncomponents:\n  - {name: a}\n";
  const LaunchPlan plan = components_plan(common + "  - {name: b}\n");
  const std::string script = *render_script(plan);
  CHECK(count(script, "\nenter_container() {") == 1);
  CHECK(has(script, "\"${dlrun_step_b[@]}\" \"${dlrun_enter_b[@]}\" \"${dlrun_rank_b[@]}\" -- "));
  CHECK(has(plan_refusal(common + "  - {name: b, container: {image: /two.sif}}\n"),
            "different containers, which only container.runtime: pyxis can start"));
}

TEST_CASE("a run on this machine refuses components") {
  CHECK(has(plan_refusal(kThreeComponents, Target::kLocal),
            "exp.yaml:4:3: error: components: dlrun run"));
}

TEST_CASE("a run in an allocation that the user already has refuses components") {
  CHECK(has(plan_refusal(kThreeComponents, Target::kSlurm, true),
            "exp.yaml:4:3: error: components: a run in an allocation that you already have starts "
            "only one program"));
}

TEST_CASE(
    "lead gets `notify` and `track`, and the first main component gets the variables of wandb") {
  const LaunchPlan plan = components_plan(
      fmt::format("{}notify: {{command: [tell.sh]}}\ntrack: {{tensorboard: true, wandb: {{project: "
                  "p}}}}\n",
                  kThreeComponents));
  CHECK(has(words(plan.lead_options), "--notify-word=tell.sh"));
  CHECK(has(words(plan.lead_options), "--tensorboard"));
  REQUIRE(plan.components.size() == 3);
  for (const PlannedComponent& component : plan.components) {
    CAPTURE(component.name);
    CHECK_FALSE(has(words(component.options), "--notify"));
    const auto& variables = component.plan.rank_templates;
    const bool has_wandb =
        std::any_of(variables.begin(), variables.end(),
                    [](const PlannedVariable& one) { return one.name == "WANDB_RUN_ID"; });
    CHECK(has_wandb == (component.name == "trainer"));
  }
}

TEST_CASE(
    "the job has --mem=0 if a component requests all memory of a node, and no --mem if no "
    "component sets `mem`") {
  const auto request = [](std::string_view first, std::string_view second) {
    return words(
        components_plan(fmt::format("resources: {{time: 1m, cpus_per_task: 1}}\nlaunch: {{command: "
                                    "[x]}}\ncomponents: [{{name: a{}}}, {{name: b{}}}]\n",
                                    first, second))
            .directives);
  };
  CHECK(has(request(", mem: 0", ", mem: 1G"), " --mem=0 "));
  CHECK(has(request("", ", mem: 1500"), " --mem=1500M "));
  CHECK_FALSE(has(request("", ""), "--mem"));
}

}  // namespace
}  // namespace dlrun
