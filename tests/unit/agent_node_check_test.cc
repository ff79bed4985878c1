#include <fcntl.h>
#include <sys/stat.h>

#include <fstream>

#include <doctest/doctest.h>

#include "common/text.h"
#include "launcher/spec/spec_keys.h"
#include "runtime/agent/node_check.h"
#include "tests/temporary_directory.h"

namespace dlrun::agent {
namespace {

using std::chrono::milliseconds;
using Strings = std::vector<std::string>;

/// Writes a program that prints `text` and ends with `code`.
void write_program(const std::filesystem::path& path, const std::string& text, int code) {
  std::ofstream(path) << "#!/bin/sh\ncat <<'EOF'\n" << text << "\nEOF\nexit " << code << "\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

TEST_CASE(
    "node checks are parsed by name, and the error for an unknown name lists the known ones") {
  const auto checks = NodeChecks::parse("disk,gpu");
  REQUIRE(checks.has_value());
  CHECK((checks->disk && checks->gpu && !checks->clock));
  CHECK(NodeChecks::parse("gpus").error().message.find("gpu, disk, clock") != std::string::npos);
  CHECK(NodeChecks::parse("nccl,disk")->collective == "nccl");
  CHECK_FALSE(NodeChecks::parse("nccl,gloo"));
}

TEST_CASE("the agent knows every check that health.preflight offers") {
  const KeyRow* const row = find_key("health.preflight");
  REQUIRE(row != nullptr);
  int checks = 0;
  for (const auto word : split(row->choices, ' ')) {
    INFO(word);
    CHECK(NodeChecks::parse(word).has_value());
    ++checks;
  }
  CHECK(checks == 5);
}

TEST_CASE(
    "GPUs that are missing or have memory errors are named, but only those that the rank can see") {
  const std::string two = "0, GPU-aa, 0\n1, GPU-bb, 3\n";
  CHECK(gpu_problems(two, "0").empty());
  CHECK(gpu_problems(two, "1") == Strings{"gpu: GPU 1 (GPU-bb) has uncorrected memory errors"});
  CHECK(gpu_problems(two, std::nullopt).size() == 1);
  CHECK(gpu_problems(two, "0,2") ==
        Strings{"gpu: CUDA_VISIBLE_DEVICES is '0,2', but nvidia-smi lists 1 of them"});
  CHECK(gpu_problems("0, GPU-aa, [N/A]\n", "GPU-aa").empty());
  CHECK(gpu_problems("No devices were found\n", "0") == Strings{"gpu: nvidia-smi lists none"});
}

TEST_CASE("nvidia-smi is run if the rank has GPUs, and its failure makes the node unfit") {
  TemporaryDirectory folder;
  Env env;
  env.set("PATH", folder.path().string() + ":/usr/bin:/bin");
  env.set("CUDA_VISIBLE_DEVICES", "0");
  env.set("SLURM_STEP_GPUS", "0");
  const NodeChecks checks{.gpu = true};
  const World world{.size = 1};
  CHECK(node_problems(checks, env, world).size() == 1);  // no nvidia-smi is on PATH
  write_program(folder / "nvidia-smi", "0, GPU-aa, 0", 0);
  CHECK(node_problems(checks, env, world).empty());
  write_program(folder / "nvidia-smi",
                "Unable to determine the device handle for GPU0: GPU is lost", 15);
  CHECK(node_problems(checks, env, world) ==
        Strings{"gpu: nvidia-smi ended with 15: Unable to determine the device handle for GPU0: "
                "GPU is lost"});
  env.set("CUDA_VISIBLE_DEVICES", "");
  CHECK(node_problems(checks, env, world).empty());
}

TEST_CASE(
    "a folder in which no file can be created is reported with the reason, by the first rank of "
    "its node") {
  TemporaryDirectory folder;
  Env env;
  env.set("DLRUN_RUN", folder.path().string());
  env.set("TMPDIR", (folder / "gone").string());
  const NodeChecks checks{.disk = true};
  CHECK(node_problems(checks, env, World{.size = 2}) ==
        Strings{"disk: cannot create a file in " + (folder / "gone").string() +
                ": No such file or directory"});
  CHECK(node_problems(checks, env, World{.rank = 1, .size = 2, .local_rank = 1, .local_size = 2})
            .empty());
  std::filesystem::create_directory(folder / "gone");
  CHECK(node_problems(checks, env, World{.size = 2}).empty());
  CHECK(std::filesystem::is_empty(folder / "gone"));
}

TEST_CASE(
    "a clock that is more than five seconds ahead of lead's or behind it makes the node unfit") {
  CHECK_FALSE(clock_problem(milliseconds(104'000), milliseconds(100'000)).has_value());
  CHECK(clock_problem(milliseconds(137'500), milliseconds(100'000)) ==
        "clock: 37.5 s ahead of lead's");
  CHECK(clock_problem(milliseconds(90'000), milliseconds(100'000)) ==
        "clock: 10.0 s behind lead's");
}

}  // namespace
}  // namespace dlrun::agent
