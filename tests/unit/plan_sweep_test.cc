#include <ctime>
#include <set>

#include "common/text.h"
#include "launcher/plan/render.h"
#include "launcher/plan/sweep_plan.h"
#include "launcher/spec/sweep_points.h"
#include "load_checks.h"
#include "tests/contains.h"

namespace dlrun {
namespace {

LoadRequest request(std::string_view text) {
  LoadRequest made;
  made.file = "exp.yaml";
  made.text = std::string(text);
  made.current_dir = "/exp";
  return made;
}

PlanInputs inputs() {
  return {"/runs", "/runs/.agents/h/dlrun-agent", "/runs/.agents/h/dlrun-trainer", Target::kSlurm};
}

tl::expected<SweepPlan, std::vector<Diagnostic>> plan(std::string_view text,
                                                      std::size_t max_array_size = 1001) {
  const LoadRequest load_request = request(text);
  return plan_sweep(load_request, loaded(load_request), inputs(), {max_array_size});
}

SweepPlan planned(std::string_view text, std::size_t max_array_size = 1001) {
  auto sweep = plan(text, max_array_size);
  if (!sweep) FAIL(format_diagnostics(sweep.error()));
  return std::move(*sweep);
}

/// Returns the YAML list of the numbers from 1 to `count`.
std::string list_of(int count) {
  std::string text;
  for (int i = 1; i <= count; ++i) text += fmt::format("{}{}", i == 1 ? "" : ", ", i);
  return "[" + text + "]";
}

const std::string kJob =
    "resources: {nodes: 2, time: 30m, gpus_per_node: 2}\ntrain: {data: {dataset: digits}}\n";

TEST_CASE("each point has its own script, and one array runs all points") {
  const SweepPlan sweep = planned(
      kJob +
      "sweep: {parameters: {train.lr: [0.1, 0.01], train.batch: [32, 256]}, max_parallel: 3}");
  REQUIRE(sweep.points.size() == 4);
  REQUIRE(sweep.arrays.size() == 1);
  CHECK(sweep.keys == std::vector<std::string>{"train.lr", "train.batch"});
  CHECK(has(sweep.arrays[0].script, "#SBATCH --array=0-3%3"));
  CHECK(has(sweep.arrays[0].script, "#SBATCH --nodes=2"));
  CHECK_FALSE(has(sweep.arrays[0].script, "--lr"));
  CHECK(has(sweep.points[3].script, "--lr 0.01"));
  CHECK(has(sweep.points[3].script, "--batch 256"));
  CHECK_FALSE(has(sweep.points[3].script, "--array"));
  CHECK(has(sweep.points[3].resolved, "lr: 0.01  # exp.yaml:3:38"));
  CHECK_FALSE(has(sweep.points[3].resolved, "sweep"));
  CHECK(sweep.points[3].point_in_array == 3);
  const auto gpu_hours = [](const Requested& requested) -> std::optional<double> {
    return static_cast<double>(*requested.gpus * *requested.time_seconds) / 3600;
  };
  CHECK(sum_of_hours(sweep, gpu_hours) == doctest::Approx(8));
}

TEST_CASE("a point renders to the same script as a spec with its values and without a sweep") {
  const std::string rest = kJob + "environment: {vars: {A: x, B: y}}\n";
  const SweepPlan sweep = planned(
      rest +
      "sweep:\n  points:\n    - {train.lr: 0.1, environment.vars.A: \"1 2\", train.hidden: [8]}\n"
      "    - {train.lr: 0.2, environment.vars.A: \"3\", train.hidden: [9, 9]}\n"
      "    - {train.lr: 0.3}\n    - {resources.mem: 4G, launch.srun.label: true}\n"
      "    - {resources.mem: 5G, launch.srun.label: false}\n");
  const std::vector<std::vector<std::string>> set_arguments_of_points = {
      {"train.lr=0.1", "environment.vars.A=1 2", "train.hidden=[8]"},
      {"train.lr=0.2", "environment.vars.A=3", "train.hidden=[9, 9]"},
      {"train.lr=0.3"},
      {"resources.mem=4G", "launch.srun.label=true"},
      {"resources.mem=5G"}};
  REQUIRE(sweep.points.size() == set_arguments_of_points.size());
  for (std::size_t i = 0; i < set_arguments_of_points.size(); ++i) {
    LoadRequest without_sweep = request(rest);
    without_sweep.set_arguments = set_arguments_of_points[i];
    auto script = render_script(*make_plan(loaded(without_sweep), inputs()));
    REQUIRE(script.has_value());
    // The variables stand in the order of the layers that set them (spec, --set, point), so the
    // lines are compared without their order.
    const auto lines = [](std::string_view text) {
      std::multiset<std::string, std::less<>> all;
      for (const auto line : split(text, '\n')) all.emplace(line);
      return all;
    };
    CHECK(lines(sweep.points[i].script) == lines(*script));
  }
}

TEST_CASE("a sweep uses the trainer if one of its points does") {
  const std::string job =
      "resources: {nodes: 2, tasks_per_node: 1, time: 1m}\nlaunch: {command: [x]}\n"
      "sweep:\n  points:\n    - {health.preflight: [disk]}\n";
  CHECK_FALSE(planned(job + "    - {health.preflight: [clock]}\n").uses_trainer());
  const SweepPlan sweep = planned(job + "    - {health.preflight: [gloo]}\n");
  CHECK(sweep.uses_trainer());
  CHECK_FALSE(sweep.points[0].uses_trainer);
}

TEST_CASE("a sweep with more points than MaxArraySize is several arrays") {
  const SweepPlan sweep =
      planned(kJob + "sweep: {parameters: {train.seed: " + list_of(25) + "}}", 10);
  REQUIRE(sweep.arrays.size() == 3);
  CHECK(sweep.arrays[0].task_count == 10);
  CHECK(sweep.arrays[2].task_count == 5);
  CHECK(has(sweep.arrays[0].script, "--array=0-9 "));
  CHECK(has(sweep.arrays[2].script, "--array=0-4 "));
  CHECK(sweep.points[24].array == 2);
  CHECK(sweep.points[24].point_in_array == 4);
}

TEST_CASE("points with different #SBATCH lines are in different arrays") {
  const SweepPlan sweep = planned(
      "train: {data: {dataset: digits}}\nresources: {time: 1m}\nsweep: {parameters: {train.lr: [1, "
      "2], "
      "resources.nodes: [1, 4]}}");
  REQUIRE(sweep.arrays.size() == 2);
  CHECK(has(sweep.arrays[1].script, "#SBATCH --nodes=4"));
  CHECK(sweep.points[2].array == 0);
  CHECK(sweep.points[2].point_in_array == 1);
  CHECK(sweep.points[3].array == 1);
}

TEST_CASE(
    "an error in a combination of values is reported once, with the first point that has it") {
  const auto wrong = plan(
      "launch: {command: [x]}\nresources: {nodes: 3, time: 1m}\nsweep: {parameters: "
      "{resources.ntasks: [4, 2], "
      "environment.vars.A: [1, 2]}}");
  REQUIRE_FALSE(wrong.has_value());
  const std::string text = format_diagnostics(wrong.error());
  CHECK(has(text, "at point 2: resources.ntasks=2"));
  CHECK_FALSE(has(text, "at point 3"));
}

const std::string kOneNode = "resources: {nodes: 1, time: 30m}\n";

TEST_CASE(
    "the values of a sweep's program parameters replace the fields in the command and the "
    "variables") {
  const SweepPlan sweep =
      planned(kOneNode +
              "launch: {command: [python, train.py, --lr, \"{lr}\", \"{{x}}\"]}\n"
              "environment: {vars: {DEPTH: \"d{depth}{depth}\", OTHER: \"a}}\"}}\n"
              "sweep: {parameters: {lr: [0.10, 1e-4], depth: [4, \"a b\"]}}");
  REQUIRE(sweep.points.size() == 4);
  CHECK(sweep.keys == std::vector<std::string>{"lr", "depth"});
  CHECK(has(sweep.points[0].script, "python train.py --lr 0.10 '{x}'"));
  CHECK(has(sweep.points[0].script, "export DEPTH=d44"));
  CHECK(has(sweep.points[0].script, "export OTHER='a}'"));
  CHECK(has(sweep.points[3].script, "--lr 1e-4"));
  CHECK(has(sweep.points[3].script, "export DEPTH='da ba b'"));
  CHECK(has(sweep.points[3].resolved, R"(command: ["python", "train.py", "--lr", "1e-4", "{x}"])"));
  CHECK_FALSE(has(sweep.points[3].resolved, "sweep"));
  CHECK(describe(sweep.points[3].values) == "lr=1e-4 depth=\"a b\"");
}

TEST_CASE("in a sweep without program parameters, braces of the command stay as they are") {
  const SweepPlan sweep = planned(kOneNode +
                                  "launch: {command: [sh, -c, \"f() { echo {lr}; }\"]}\n"
                                  "sweep: {parameters: {environment.vars.A: [1, 2]}}");
  CHECK(has(sweep.points[0].script, "f() { echo {lr}; }"));
}

TEST_CASE(
    "a point sets keys and the sweep's program parameters, and keeps nothing of the point before "
    "it") {
  const SweepPlan sweep = planned(
      kOneNode +
      "launch: {command: [a, \"{x}\"]}\nsweep: {points: [{x: 1, environment.vars.V: \"<{x}>\"}, "
      "{x: 2, environment.vars.V: \"({x})\"}, {x: 3, resources.mem: 4G}, "
      "{x: 5, launch.command: [b, \"{x}{x}\"]}]}");
  CHECK(has(sweep.points[0].script, "export V='<1>'"));
  CHECK(has(sweep.points[1].script, "export V='(2)'"));
  CHECK(has(sweep.points[1].script, "a 2"));
  CHECK(has(sweep.points[2].script, "a 3"));
  CHECK_FALSE(has(sweep.points[2].script, "export V"));
  CHECK(has(sweep.points[3].script, "b 55"));
}

TEST_CASE("a listed point without a value for a field, or with an unused parameter, is refused") {
  const auto wrong = plan(kOneNode +
                          "launch: {command: [a, \"{x}\"]}\n"
                          "sweep: {points: [{x: 1}, {y: 2}]}");
  REQUIRE_FALSE(wrong.has_value());
  const std::string text = format_diagnostics(wrong.error());
  CHECK(has(text, "{x} has no value: a point of the sweep does not set 'x' (at point 1: y=2)"));
  CHECK(has(text, "the sweep's parameter 'y' is used nowhere"));
}

TEST_CASE("points with equal jobs are refused, and the message names the keys without effect") {
  const auto wrong =
      plan(kOneNode +
           "launch: {command: [a, \"{x}\"]}\nsweep: {points: [{x: 1}, {x: 2}, {x: 1, "
           "checkpoint.keep: 3}]}");
  REQUIRE_FALSE(wrong.has_value());
  CHECK(has(format_diagnostics(wrong.error()),
            "points 0 and 2 of the sweep are the same job, because the job does not depend on "
            "checkpoint.keep"));
}

TEST_CASE("a search program may propose the same point twice") {
  const LoadRequest load_request =
      request(kOneNode +
              "launch: {command: [a, \"{x}\"]}\n"
              "sweep: {parameters: {x: [1, 2]}, ask: [python, search.py]}");
  LoadedSpec spec = loaded(load_request);
  const SweepPoint one{{"x", "1", {}}};
  spec.spec.sweep.points = {one, one};
  const auto sweep = plan_sweep(load_request, spec, inputs(), {});
  REQUIRE(sweep.has_value());
  CHECK(sweep->points.size() == 2);
  CHECK(sweep->arrays.size() == 1);
}

TEST_CASE(
    "a packed job requests the resources of several points, and limits each point to its share") {
  const SweepPlan sweep = planned(
      "resources: {time: 1h, gpus_per_node: 2, tasks_per_node: 1, cpus_per_task: 4, mem: 16G}\n"
      "launch: {command: [a, \"{x}\"]}\n"
      "sweep: {parameters: {x: " +
      list_of(9) + "}, pack: 4, max_parallel: 8}");
  REQUIRE(sweep.arrays.size() == 1);
  const std::string& array = sweep.arrays[0].script;
  CHECK(sweep.arrays[0].task_count == 3);
  CHECK(has(array, "#SBATCH --array=0-2%2 "));
  CHECK(has(array, "#SBATCH --nodes=1 "));
  CHECK(has(array, "#SBATCH --ntasks-per-node=4 "));
  CHECK(has(array, "#SBATCH --gpus-per-node=8 "));
  CHECK(has(array, "#SBATCH --mem=64G "));
  CHECK(has(array, "export SLURM_GPUS_PER_NODE=2"));
  CHECK(has(array, "export SLURM_MEM_PER_NODE=16G"));
  CHECK(has(array, "export SLURM_NTASKS=1"));
  CHECK(has(array, "dlrun_end <= 9"));
  CHECK(has(sweep.points[8].script, "#SBATCH --gpus-per-node=2 "));
  CHECK(has(sweep.points[8].script, "#SBATCH --mem=16G "));
  CHECK(sweep.points[8].point_in_array == 8);
  CHECK(sweep.pack == 4);
}

TEST_CASE("in a packed sweep, MaxArraySize limits the tasks of an array, not its points") {
  const SweepPlan sweep =
      planned(kOneNode + "launch: {command: [a, \"{x}\"]}\nsweep: {parameters: {x: " + list_of(25) +
                  "}, pack: 3}",
              4);
  REQUIRE(sweep.arrays.size() == 3);
  CHECK(sweep.arrays[0].task_count == 4);
  CHECK(sweep.arrays[2].task_count == 1);
  CHECK(sweep.points[24].array == 2);
  CHECK(sweep.points[24].point_in_array == 0);
}

TEST_CASE(
    "the script of a point has the rule of stop_early, and its resolved spec has no other key of "
    "the sweep") {
  const SweepPlan sweep =
      planned(kOneNode +
              "launch: {command: [a, \"{x}\"]}\nsweep: {parameters: {x: [1, 2]}, stop_early: "
              "{metric: accuracy, after: 5}}");
  CHECK(has(sweep.points[1].script, "--stop-early max:accuracy"));
  CHECK(has(sweep.points[1].script, "--stop-after 5"));
  CHECK(has(sweep.points[1].resolved, "stop_early:"));
  CHECK_FALSE(has(sweep.points[1].resolved, "parameters:"));
}

TEST_CASE("ten thousand points are planned and rendered in less than 2 s") {
  const std::string text = kJob + "sweep: {parameters: {train.seed: " + list_of(100) +
                           ", train.batch: " + list_of(100) + "}}";
  // Processor time, which other load on the machine does not change.
  const std::clock_t start = std::clock();
  const SweepPlan sweep = planned(text);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  CHECK(sweep.points.size() == 10'000);
  CHECK(sweep.arrays.size() == 10);
  CHECK(sweep.arrays[0].script.size() < 4096);
  MESSAGE("10,000 points in ", seconds, " s");
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(seconds < 2);
#endif
}

}  // namespace
}  // namespace dlrun
