// Tests the notes of `dlrun run` about differences between the local run and a job of the spec.

#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "launcher/submit/local_run_notes.h"
#include "tests/contains.h"
#include "tests/temporary_directory.h"
#include "tests/unit/load_checks.h"

namespace dlrun {
namespace {

LoadedSpec spec_of(const std::string& text, std::vector<std::string> set_arguments = {}) {
  LoadRequest request;
  request.file = "exp.yaml";
  request.text = text;
  request.current_dir = "/exp";
  request.set_arguments = std::move(set_arguments);
  return loaded(request);
}

/// Returns the note about fewer ranks; "" if there is none.
std::string ranks_note(const LoadedSpec& spec) {
  const auto plan = make_plan(spec, {"/runs", "/runs/agent", "/runs/trainer", Target::kLocal});
  if (!plan) FAIL(format_diagnostics(plan.error()));
  return fewer_ranks_note(spec, *plan).value_or("");
}

}  // namespace

TEST_CASE("the note about fewer ranks gives settings with which all ranks of the spec run here") {
  const std::string plain =
      "resources: {nodes: 2, tasks_per_node: 2, time: 1m}\nlaunch: {command: [x]}";
  CHECK(ranks_note(spec_of(plain)) ==
        "this machine counts as one node, so 2 of the 4 ranks of the spec run here. `--set "
        "resources.nodes=1 --set resources.tasks_per_node=4` runs all of them here");
  const auto changed = spec_of(plain, {"resources.nodes=1", "resources.tasks_per_node=4"});
  CHECK(ranks_note(changed).empty());
  const std::string torchrun =
      "resources: {nodes: 2, gpus_per_node: 4, time: 1m}\n"
      "launch: {preset: torchrun, command: [x]}";
  CHECK(has(ranks_note(spec_of(torchrun)),
            "4 of the 8 processes of the spec run here. `--set resources.nodes=1 --set "
            "launch.nproc_per_node=8` runs all"));
  CHECK(ranks_note(spec_of(torchrun, {"resources.nodes=1", "launch.nproc_per_node=8"})).empty());
  CHECK(has(ranks_note(spec_of("resources: {ntasks: 6, nodes: 3, time: 1m}\n"
                               "launch: {command: [x]}")),
            "2 of the 6 ranks"));
  CHECK(ranks_note(spec_of("resources: {nodes: 2-3, tasks_per_node: 2, time: 1m}\n"
                           "launch: {command: [x]}"))
            .empty());
}

TEST_CASE("if the spec requests GPUs and this machine certainly has none, a note says so") {
  const TemporaryDirectory devices;
  Env env;
  env.set("PATH", (devices / "bin").string());
  const auto wants_gpus =
      spec_of("resources: {gpus_per_node: 2, time: 1m}\nlaunch: {command: [x]}");
  CHECK(missing_gpu_note(wants_gpus, env, devices.path()) ==
        "this machine has no GPU: the programs see none of the GPUs that the spec requests");
  for (const char* resources : {"gpus_per_node: 0, ", "exclusive: true, ", ""}) {
    CAPTURE(resources);
    const auto other =
        spec_of(std::string("resources: {") + resources + "time: 1m}\nlaunch: {command: [x]}");
    CHECK_FALSE(missing_gpu_note(other, env, devices.path()));
  }
  std::filesystem::create_directory(devices / "bin");
  std::ofstream(devices / "bin/nvidia-smi") << "#!/bin/sh\n";
  std::filesystem::permissions(devices / "bin/nvidia-smi", std::filesystem::perms::owner_all);
  CHECK_FALSE(is_without_gpu(env, devices.path()));
  std::filesystem::remove(devices / "bin/nvidia-smi");
  CHECK(is_without_gpu(env, devices.path()));
  std::ofstream(devices / "kfd").close();
  CHECK_FALSE(is_without_gpu(env, devices.path()));
}

}  // namespace dlrun
