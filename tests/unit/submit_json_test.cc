// Tests the JSON of submissions and checks, which cli/OUTPUT.md documents, and the text of checks.

#include <fstream>
#include <string>
#include <variant>

#include <doctest/doctest.h>

#include "launcher/submit/submit_spec.h"
#include "tests/unit/submit_cluster.h"

using namespace dlrun;
using Json = nlohmann::ordered_json;

namespace {

/// A simulated cluster, and the JSON of checks and submissions of its spec x.yaml.
struct JsonCluster : Cluster {
  /// Writes x.yaml, with the lines `more` at its end. Its jobs request one GPU and two cores for
  /// one hour.
  void write_spec(const std::string& more) const {
    std::ofstream(folder / "x.yaml") << "name: x\n"
                                     << "resources: {gpus_per_node: 1, cpus_per_task: 2, "
                                        "tasks_per_node: 1, time: 1h}\n"
                                     << "launch: {agent: false, command: [\"true\", \"{lr}\"]}\n"
                                     << more;
  }
  Json check() {
    RunInspector inspector(context.env, known_servers(context));
    const auto report = check_experiment(context, reporter, inspector, {"x.yaml", {}, {}});
    REQUIRE(report.has_value());
    return check_json(*report);
  }
  /// Returns the JSON of `submit --test-only` or of `submit --dry-run`.
  Json json_of(SubmitMode mode) {
    Provenance provenance(folder.path(), context.env, {"test"}, "hash");
    RunInspector inspector(context.env, known_servers(context));
    const auto result = submit_spec(context, reporter, inspector, {"x.yaml", {}, {}},
                                    {mode, false, ""}, provenance);
    REQUIRE(result.has_value());
    if (mode == SubmitMode::kDryRun) return submission_json(std::get<DryRun>(*result));
    return submission_json(std::get<TestOnlyAnswer>(*result));
  }
};

const std::string kNoSweep;  // x.yaml stays the spec of a single job
/// A search: a sweep whose points a program chooses.
const std::string kSearch = "sweep: {parameters: {lr: {min: 1, max: 9}}, ask: [search]}\n";
const std::string kThreePoints = "sweep: {parameters: {lr: [1, 2, 3]}}\n";

}  // namespace

TEST_CASE_FIXTURE(JsonCluster,
                  "the hours in the JSON of --test-only and --dry-run are those of all points of a "
                  "sweep together") {
  write_spec(kNoSweep);
  CHECK(json_of(SubmitMode::kTestOnly)["gpu_hours"] == 1);
  write_spec(kThreePoints);
  const Json tested = json_of(SubmitMode::kTestOnly);
  CHECK(tested["gpu_hours"] == 3);
  CHECK(tested["core_hours"] == 6);
  CHECK(json_of(SubmitMode::kDryRun)["gpu_hours"] == 3);
}

TEST_CASE_FIXTURE(JsonCluster,
                  "`points` and `arrays` are null in the JSON of a job and of a search, and the "
                  "hours of a search are null") {
  for (const std::string& more : {kNoSweep, kSearch}) {
    write_spec(more);
    for (const Json& json : {check(), json_of(SubmitMode::kDryRun)}) {
      CHECK(json["points"].is_null());
      CHECK(json["arrays"].is_null());
      CHECK(json["gpu_hours"].is_null() == (more == kSearch));
    }
    const Json tested = json_of(SubmitMode::kTestOnly);
    CHECK(tested["gpu_hours"].is_null() == (more == kSearch));
    CHECK(tested["core_hours"].is_null() == (more == kSearch));
  }
  write_spec(kThreePoints);
  for (const Json& json : {check(), json_of(SubmitMode::kDryRun)}) {
    CHECK(json["points"] == 3);
    CHECK(json["arrays"] == 1);
  }
}

TEST_CASE_FIXTURE(JsonCluster,
                  "the text of a check has the cost of all points of a sweep, and of each point of "
                  "a search") {
  const auto sweep_value = [this] {
    RunInspector inspector(context.env, known_servers(context));
    const auto report = check_experiment(context, reporter, inspector, {"x.yaml", {}, {}});
    REQUIRE(report.has_value());
    for (const LabelledLine& one : check_lines(*report))
      if (one.label == "sweep") return one.value;
    return std::string();
  };
  write_spec(kThreePoints);
  CHECK(sweep_value() == "3 points; at most 3.0 GPU-hours, 6.0 core-hours altogether");
  write_spec(kSearch);
  CHECK(sweep_value() ==
        "the program chooses the points; at most 1.0 GPU-hours, 2.0 core-hours each");
}

TEST_CASE_FIXTURE(JsonCluster,
                  "the text of a check has the container runtime, and the image in the form that "
                  "the runtime needs") {
  const auto container = [this](const std::string& more) {
    write_x_yaml(more);
    RunInspector inspector(context.env, known_servers(context));
    const auto report = check_experiment(context, reporter, inspector, {"x.yaml", {}, {}});
    REQUIRE(report.has_value());
    for (const LabelledLine& one : check_lines(*report))
      if (one.label == "container") return one.value;
    return std::string();
  };
  CHECK(container("").empty());
  const std::string image = ", image: docker://nvcr.io/nvidia/pytorch:24.05-py3}\n";
  CHECK(container("container: {runtime: pyxis" + image) ==
        "pyxis, image nvcr.io#nvidia/pytorch:24.05-py3");
  CHECK(container("container: {runtime: apptainer" + image) ==
        "apptainer, image docker://nvcr.io/nvidia/pytorch:24.05-py3");
}

TEST_CASE_FIXTURE(
    JsonCluster,
    "the JSON of a check has the number of warnings, and lines of text about the components") {
  write_spec(kNoSweep);
  Json json = check();
  CHECK(json["warning_count"].is_number_unsigned());
  CHECK(json["component_lines"].is_null());
  std::ofstream(folder / "x.yaml") << "name: x\nresources: {time: 1m}\n"
                                   << "components:\n- {name: server, role: service, nodes: 1, "
                                      "launch: {command: [sleep, \"1\"]}}\n"
                                   << "- {name: main, nodes: 1, launch: {command: [\"true\"]}}\n";
  json = check();
  REQUIRE(json["component_lines"].is_array());
  CHECK(json["component_lines"].size() == 3);
}
