// Tests the checks of nodes before the programs start (health.preflight).
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <fstream>

#include <doctest/doctest.h>

#include "common/text.h"
#include "launcher/spec/spec_keys.h"
#include "runtime/agent/binding_check.h"
#include "runtime/agent/collective_check.h"
#include "runtime/agent/fabric_check.h"
#include "runtime/agent/node_check.h"
#include "tests/temporary_directory.h"

namespace dlrun::agent {
namespace {

using std::chrono::milliseconds;
using Strings = std::vector<std::string>;

/// Writes a program that prints `text` and ends with `exit_code`.
void write_program(const std::filesystem::path& path, const std::string& text, int exit_code) {
  std::ofstream(path) << "#!/bin/sh\ncat <<'EOF'\n" << text << "\nEOF\nexit " << exit_code << "\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

TEST_CASE(
    "node checks are parsed by name, the error for an unknown name lists the known ones, and two "
    "checks of collectives are refused") {
  const auto checks = NodeChecks::parse("disk,gpu");
  REQUIRE(checks.has_value());
  CHECK((checks->disk && checks->gpu && !checks->clock));
  CHECK(NodeChecks::parse("gpus").error().message.find("gpu, disk, clock") != std::string::npos);
  CHECK(NodeChecks::parse("nccl,disk")->collective == "nccl");
  CHECK(NodeChecks::parse("nccl,gloo").error().message ==
        "--preflight has 'nccl' and 'gloo', but takes only one of nccl, rccl and gloo");
  CHECK(NodeChecks::parse("rccl,gpu")->collective == "rccl");
  CHECK_FALSE(NodeChecks::parse("nccl,rccl"));
}

TEST_CASE("the message about a failed check of collectives has the name of the backend once") {
  for (const char* reason : {"no GPU", "nccl: no GPU"}) {
    const auto failed = CollectiveCheck::failure("nccl", reason, true);
    CHECK(failed.words == "nccl: no GPU");
    CHECK(failed.is_own);
  }
}

TEST_CASE("the agent knows every check that health.preflight offers") {
  const KeyRow* const row = find_key("health.preflight");
  REQUIRE(row != nullptr);
  int check_count = 0;
  for (const auto word : split(row->choices, ' ')) {
    INFO(word);
    CHECK(NodeChecks::parse(word).has_value());
    ++check_count;
  }
  CHECK(check_count == 8);
}

TEST_CASE(
    "GPUs that are missing or have memory errors are reported, but only those that the rank can "
    "see") {
  const std::string two_gpus = "0, GPU-aa, 0\n1, GPU-bb, 3\n";
  CHECK(gpu_problems(two_gpus, "0").empty());
  CHECK(gpu_problems(two_gpus, "1") ==
        Strings{"gpu: GPU 1 (GPU-bb) has uncorrected memory errors"});
  CHECK(gpu_problems(two_gpus, std::nullopt).size() == 1);
  CHECK(gpu_problems(two_gpus, "0,2") ==
        Strings{"gpu: CUDA_VISIBLE_DEVICES is '0,2', but nvidia-smi lists 1 of them"});
  CHECK(gpu_problems("0, GPU-aa, [N/A]\n", "GPU-aa").empty());
  CHECK(gpu_problems("No devices were found\n", "0") == Strings{"gpu: nvidia-smi lists no GPU"});
}

TEST_CASE("a check of collectives is killed only after the sum of its own limits") {
  // The check waits for rank 0, then for the connections, and then for the all-reduce.
  constexpr auto kWait = CollectiveCheck::kEachWaitLimit;
  auto checks = NodeChecks::parse("gloo").value();
  CHECK(CollectiveCheck::time_after_opening_device(checks) > 3 * kWait);
  checks.figures.all_reduce = checks.figures.node_all_reduce = 10;
  CHECK(CollectiveCheck::time_after_opening_device(checks) < 4 * kWait);
  checks.fabric = true;
  CHECK(CollectiveCheck::time_after_opening_device(checks) > 7 * kWait);
  checks.collective = "rccl";
  CHECK(CollectiveCheck::time_after_opening_device(checks) < 4 * kWait);
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

TEST_CASE("a folder in which a file can be created but not written is reported with the reason") {
  TemporaryDirectory folder;
  // A write beyond the limit sends SIGXFSZ, and fails with EFBIG if the signal is ignored.
  auto* const action = ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  auto small = before;
  small.rlim_cur = 1U << 20U;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const auto problem = disk_problem(folder.path().string());
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  ::signal(SIGXFSZ, action);
  CHECK(problem.value_or("") ==
        "disk: cannot write a file of 4 MiB in " + folder.path().string() + ": File too large");
}

TEST_CASE("AMD GPUs with uncorrected errors are reported, and ROCR_VISIBLE_DEVICES selects GPUs") {
  TemporaryDirectory folder;
  Env env;
  env.set("PATH", folder.path().string() + ":/usr/bin:/bin");
  env.set("ROCR_VISIBLE_DEVICES", "1");
  env.set("SLURM_STEP_GPUS", "1");
  write_program(folder / "amd-smi",
                "gpu,total_correctable_count,total_uncorrectable_count\n0,0,0\n1,5,2", 0);
  const NodeChecks checks{.gpu = true};
  CHECK(node_problems(checks, env, World{.size = 1}) ==
        Strings{"gpu: GPU 1 () has uncorrected memory errors"});
  env.set("ROCR_VISIBLE_DEVICES", "0");
  CHECK(node_problems(checks, env, World{.size = 1}).empty());
  env.set("ROCR_VISIBLE_DEVICES", "0,2");
  CHECK(node_problems(checks, env, World{.size = 1}) ==
        Strings{"gpu: the list of visible devices is '0,2', but amd-smi lists 1 of them"});
}

/// A folder with the files of sysfs that a test writes.
struct Sysfs {
  TemporaryDirectory folder;
  void write(const std::string& file, std::string_view text) const {
    std::filesystem::create_directories((folder / file).parent_path());
    std::ofstream(folder / file) << text << "\n";
  }
  /// Writes the attributes of the port ADAPTER/1.
  void write_port(const std::string& adapter, std::string_view state, std::string_view phys_state,
                  std::string_view rate, std::string_view link_layer = "InfiniBand") const {
    const std::string port = adapter + "/ports/1/";
    write(port + "state", state);
    write(port + "phys_state", phys_state);
    write(port + "rate", rate);
    write(port + "link_layer", link_layer);
  }
};

TEST_CASE(
    "lists of processors have the kernel's format, and nvidia-smi's PCI addresses are converted to "
    "those of sysfs") {
  const auto processors = parse_processors("0-3,8,10-11\n");
  REQUIRE(processors.has_value());
  CHECK(processors->count() == 7);
  CHECK(processor_list(*processors) == "0-3,8,10-11");
  CHECK(parse_processors("")->none());
  for (const char* wrong : {"a", "3-1", "-1", "0-8192"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_processors(wrong).has_value());
  }
  CHECK(pci_device_name(" 00000000:C1:00.0") == "0000:c1:00.0");
}

TEST_CASE("the message about a rank whose CPUs are all far from its GPU has both lists of CPUs") {
  const auto near = *parse_processors("32-47");
  CHECK_FALSE(binding_problem(2, near, *parse_processors("47-63")).has_value());
  CHECK_FALSE(binding_problem(2, *parse_processors(""), *parse_processors("0")).has_value());
  CHECK(binding_problem(2, near, *parse_processors("0-15"))
            ->starts_with("binding: none of the CPUs that a rank may use is near its GPU [GPU 2 is "
                          "near the CPUs 32-47, its rank may use "
                          "0-15]; set launch.gpu_bind: closest"));
}

TEST_CASE(
    "each rank checks the GPU whose number is the local rank, or the GPU that Slurm gave to it") {
  const Sysfs sysfs;
  TemporaryDirectory folder;
  write_program(folder / "nvidia-smi", "0, GPU-aa, 00000000:0A:00.0\n1, GPU-bb, 00000000:C1:00.0",
                0);
  // This process certainly may not use processor 8191, and certainly may use one of the others.
  sysfs.write("0000:0a:00.0/local_cpulist", "0-8190");
  sysfs.write("0000:c1:00.0/local_cpulist", "8191");
  Env env;
  env.set("PATH", folder.path().string() + ":/usr/bin:/bin");
  env.set("CUDA_VISIBLE_DEVICES", "0,1");
  env.set("SLURM_STEP_GPUS", "0,1");
  World world{.rank = 0, .size = 2, .local_rank = 0, .local_size = 2};
  CHECK(binding_problems(env, world, sysfs.folder.path()).empty());
  world.rank = world.local_rank = 1;
  REQUIRE(binding_problems(env, world, sysfs.folder.path()).size() == 1);
  CHECK(binding_problems(env, world, sysfs.folder.path())[0].find("GPU 1 is near the CPUs 8191") !=
        std::string::npos);
  env.set("CUDA_VISIBLE_DEVICES", "1");
  env.set("SLURM_GPUS_PER_TASK", "1");
  world.rank = world.local_rank = 0;
  CHECK(binding_problems(env, world, sysfs.folder.path()).size() == 1);
  env.set("CUDA_VISIBLE_DEVICES", "");
  CHECK(binding_problems(env, world, sysfs.folder.path()).empty());
}

TEST_CASE("InfiniBand ports are compared with the fabric figures of the site") {
  const Sysfs sysfs;
  sysfs.write_port("mlx5_0", "4: ACTIVE", "5: LinkUp", "200 Gb/sec (4X HDR)");
  sysfs.write_port("mlx5_1", "4: ACTIVE", "5: LinkUp", "100 Gb/sec (2X HDR)");
  sysfs.write_port("mlx5_2", "1: DOWN", "3: Disabled", "10 Gb/sec (4X SDR)");
  sysfs.write_port("mlx5_bond", "4: ACTIVE", "5: LinkUp", "25 Gb/sec (1X EDR)", "Ethernet");
  const auto problems = [&](std::string_view figures) {
    return infiniband_problems(FabricFigures::parse(figures).value(), sysfs.folder.path());
  };
  CHECK(problems("infiniband_ports=2,infiniband_gbps=100").empty());
  CHECK(problems("infiniband_ports=2,infiniband_gbps=200") ==
        Strings{"fabric: the InfiniBand port mlx5_1/1 runs at 100 Gb/s, expected at least 200"});
  CHECK(problems("infiniband_ports=4") ==
        Strings{"fabric: 2 InfiniBand ports are active, expected at least 4"});
  sysfs.write_port("mlx5_2", "2: INIT", "5: LinkUp", "200 Gb/sec (4X HDR)");
  CHECK(infiniband_problems({}, sysfs.folder.path()) ==
        Strings{"fabric: the InfiniBand port mlx5_2/1 has a link, but its state is INIT, expected "
                "ACTIVE; a subnet manager must configure it"});
  CHECK(infiniband_problems({.infiniband_ports = 1}, sysfs.folder / "none") ==
        Strings{"fabric: 0 InfiniBand ports are active, expected at least 1; programs would use "
                "sockets"});
}

TEST_CASE("if two GPUs have no NVLink between them, the message says which link they have") {
  const std::string matrix =
      "\t\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\x1b[0m\n"
      "GPU0\t X \tNV4\tSYS\tPIX\t0-15\t0\n"
      "GPU1\tNV4\t X \tNV4\tSYS\t0-15\t0\n"
      "GPU2\tSYS\tNV4\t X \tSYS\t16-31\t1\n"
      "NIC0\tPIX\tSYS\tSYS\t X \t\t\n\nLegend:\n\n  X    = Self\n";
  CHECK(gpu_link_problems(matrix) ==
        Strings{"fabric: GPU0 and GPU2 are connected over SYS, expected NVLink"});
  CHECK(gpu_link_problems("\tGPU0\tCPU Affinity\nGPU0\t X \t0-15\n").empty());
  CHECK(gpu_link_problems("").size() == 1);
}

TEST_CASE(
    "the fabric figures of a site are parsed by name, and unknown names and wrong values are "
    "refused") {
  const auto figures = FabricFigures::parse("gpu_link=nvlink,all_reduce=90,node_all_reduce=200");
  REQUIRE(figures.has_value());
  CHECK((figures->needs_nvlink && figures->all_reduce == 90 && figures->node_all_reduce == 200));
  for (const char* wrong : {"", "all_reduce", "all_reduce=-1", "gpu_link=pcie", "ports=4"}) {
    CAPTURE(wrong);
    CHECK_FALSE(FabricFigures::parse(wrong).has_value());
  }
}

TEST_CASE(
    "a check of the user runs once per node, without the secret, and the message has its exit code "
    "and last line") {
  TemporaryDirectory folder;
  Env env;
  env.set("PATH", "/usr/bin:/bin");
  env.set("DLRUN_SECRET", "s3cret");
  env.set("OUT", (folder / "out").string());
  NodeChecks checks{.user_lines = {"echo \"[$DLRUN_SECRET]\" >>$OUT"}};
  CHECK(checks.has_check_of_node());
  CHECK(node_problems(checks, env, World{.size = 2, .local_size = 2}).empty());
  CHECK(node_problems(checks, env, World{.rank = 1, .size = 2, .local_rank = 1, .local_size = 2})
            .empty());
  std::string line;
  std::ifstream out(folder / "out");
  CHECK((std::getline(out, line) && line == "[]" && !std::getline(out, line)));
  checks.user_lines = {"echo first; echo 'no /data' >&2; exit 3", "exit 4", "true"};
  CHECK(node_problems(checks, env, World{}) ==
        Strings{"run: 'echo first; echo 'no /data' >&2; exit 3' ended with 3 [no /data]",
                "run: 'exit 4' ended with 4"});
  CHECK(user_check_problem("sleep 100", env, milliseconds(50)).has_value());
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
