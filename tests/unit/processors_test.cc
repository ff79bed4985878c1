#include "common/processors.h"

#include <thread>

#include <doctest/doctest.h>
#include <sched.h>

#include "common/files.h"
#include "tests/temporary_directory.h"

namespace dlrun {
namespace {

namespace fs = std::filesystem;

void put(const fs::path& file, std::string_view text) {
  fs::create_directories(file.parent_path());
  REQUIRE(write_file_atomic(file, text));
}

}  // namespace

TEST_CASE(
    "processors: with cgroup version 2, the quota is the smallest one of the cgroup and its "
    "parents") {
  const TemporaryDirectory mount;
  put(mount / "slurm/job_1/cpu.max", "300000 100000\n");
  put(mount / "slurm/job_1/step_0/cpu.max", "max 100000\n");
  put(mount / "slurm/cpu.max", "3200000 100000\n");
  CHECK(cpu_quota("0::/slurm/job_1/step_0\n", mount.path()) == 3.0);
  CHECK(cpu_quota("0::/slurm\n", mount.path()) == 32.0);
  CHECK(cpu_quota("0::/\n", mount.path()) == std::nullopt);
}

TEST_CASE(
    "processors: the quota of cgroup version 1 is found in a cpu or a cpu,cpuacct hierarchy") {
  const TemporaryDirectory mount;
  put(mount / "cpu,cpuacct/slurm/job_1/cpu.cfs_quota_us", "150000\n");
  put(mount / "cpu,cpuacct/slurm/job_1/cpu.cfs_period_us", "100000\n");
  put(mount / "cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  put(mount / "cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  put(mount / "cpu/solo/cpu.cfs_quota_us", "50000\n");
  put(mount / "cpu/solo/cpu.cfs_period_us", "100000\n");
  CHECK(cpu_quota("5:memory:/slurm/job_1\n4:cpu,cpuacct:/slurm/job_1\n", mount.path()) == 1.5);
  CHECK(cpu_quota("4:cpu:/solo\n", mount.path()) == 0.5);
  CHECK(cpu_quota("4:cpuset:/slurm/job_1\n", mount.path()) == std::nullopt);
}

TEST_CASE(
    "processors: in a container that sees only its own cgroup, the quota is in the mount's top "
    "folder") {
  const TemporaryDirectory mount;
  put(mount / "cpu.max", "200000 100000\n");
  CHECK(cpu_quota("0::/docker/0123456789ab\n", mount.path()) == 2.0);
  CHECK(cpu_quota("0::/../../elsewhere\n", mount.path()) == 2.0);
}

TEST_CASE("processors: a damaged cgroup file means no quota") {
  const TemporaryDirectory mount;
  for (const char* text : {"", "x y\n", "100000\n", "0 100000\n", "100000 0\n", "1 2 3\n"}) {
    put(mount / "cpu.max", text);
    CHECK(cpu_quota("0::/\n", mount.path()) == std::nullopt);
  }
  CHECK(cpu_quota("no group\n:\n", mount.path()) == std::nullopt);
}

TEST_CASE("processors: a quota is rounded down to whole processors, but never to zero") {
  CHECK(usable_processors(8, std::nullopt) == 8);
  CHECK(usable_processors(8, 2.9) == 2);
  CHECK(usable_processors(8, 0.5) == 1);
  CHECK(usable_processors(2, 16.0) == 2);
  CHECK(usable_processors(0, std::nullopt) == 1);
}

TEST_CASE("processors: own_processors() follows the affinity of the calling thread") {
  const std::size_t before = own_processors().count();
  CHECK(before >= 1);
  std::size_t after = 0;
  std::thread([&] {
    const ProcessorSet own = own_processors();
    const std::size_t last = own.size() - 1;
    std::size_t first = 0;
    while (first < last && !own[first]) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    if (::sched_setaffinity(0, sizeof one, &one) == 0) after = own_processors().count();
  }).join();
  CHECK(after == 1);
  CHECK(own_processors().count() == before);
}

}  // namespace dlrun
