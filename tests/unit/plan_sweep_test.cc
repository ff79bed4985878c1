#include <ctime>
#include <set>

#include "common/text.h"
#include "launcher/plan/render.h"
#include "launcher/plan/sweep_plan.h"
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
  const LoadRequest with = request(text);
  return plan_sweep(with, loaded(with), inputs(), {max_array_size});
}

SweepPlan planned(std::string_view text, std::size_t max_array_size = 1001) {
  auto sweep = plan(text, max_array_size);
  if (!sweep) FAIL(format_diagnostics(sweep.error()));
  return std::move(*sweep);
}

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
  CHECK(sweep.points[3].task == 3);
  const auto one_hour = [](const Requested& requested) -> std::optional<double> {
    return static_cast<double>(*requested.gpus * *requested.time_seconds) / 3600;
  };
  CHECK(sum_of_hours(sweep, one_hour) == doctest::Approx(8));
}

TEST_CASE("a point renders to the same script as a spec with its values and without a sweep") {
  const std::string rest = kJob + "environment: {vars: {A: x, B: y}}\n";
  const SweepPlan sweep = planned(
      rest +
      "sweep:\n  points:\n    - {train.lr: 0.1, environment.vars.A: \"1 2\", train.hidden: [8]}\n"
      "    - {train.lr: 0.2, environment.vars.A: \"3\", train.hidden: [9, 9]}\n"
      "    - {train.lr: 0.3}\n    - {resources.mem: 4G, launch.srun.label: true}\n"
      "    - {resources.mem: 5G, launch.srun.label: false}\n");
  const std::vector<std::vector<std::string>> sets = {
      {"train.lr=0.1", "environment.vars.A=1 2", "train.hidden=[8]"},
      {"train.lr=0.2", "environment.vars.A=3", "train.hidden=[9, 9]"},
      {"train.lr=0.3"},
      {"resources.mem=4G", "launch.srun.label=true"},
      {"resources.mem=5G"}};
  REQUIRE(sweep.points.size() == sets.size());
  for (std::size_t i = 0; i < sets.size(); ++i) {
    LoadRequest alone = request(rest);
    alone.sets = sets[i];
    auto script = render_script(*make_plan(loaded(alone), inputs()));
    REQUIRE(script.has_value());
    // The order of the variables depends on the order of their layers.
    const auto lines = [](std::string_view text) {
      std::multiset<std::string, std::less<>> all;
      for (const auto line : split(text, '\n')) all.emplace(line);
      return all;
    };
    CHECK(lines(sweep.points[i].script) == lines(*script));
  }
}

TEST_CASE("a sweep above MaxArraySize is several arrays") {
  const SweepPlan sweep =
      planned(kJob + "sweep: {parameters: {train.seed: " + list_of(25) + "}}", 10);
  REQUIRE(sweep.arrays.size() == 3);
  CHECK(sweep.arrays[0].tasks == 10);
  CHECK(sweep.arrays[2].tasks == 5);
  CHECK(has(sweep.arrays[0].script, "--array=0-9 "));
  CHECK(has(sweep.arrays[2].script, "--array=0-4 "));
  CHECK(sweep.points[24].array == 2);
  CHECK(sweep.points[24].task == 4);
}

TEST_CASE("points with different #SBATCH lines are in different arrays") {
  const SweepPlan sweep = planned(
      "train: {data: {dataset: digits}}\nresources: {time: 1m}\nsweep: {parameters: {train.lr: [1, "
      "2], "
      "resources.nodes: [1, 4]}}");
  REQUIRE(sweep.arrays.size() == 2);
  CHECK(has(sweep.arrays[1].script, "#SBATCH --nodes=4"));
  CHECK(sweep.points[2].array == 0);
  CHECK(sweep.points[2].task == 1);
  CHECK(sweep.points[3].array == 1);
}

TEST_CASE("an error in a combination of values names the first point that has it, once") {
  const auto wrong = plan(
      "launch: {command: [x]}\nresources: {nodes: 3, time: 1m}\nsweep: {parameters: "
      "{resources.ntasks: [4, 2], "
      "train.lr: [1, 2]}}");
  REQUIRE_FALSE(wrong.has_value());
  const std::string text = format_diagnostics(wrong.error());
  CHECK(has(text, "at point 2: resources.ntasks=2"));
  CHECK_FALSE(has(text, "at point 3"));
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
