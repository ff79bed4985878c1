// Reads the affinity from the kernel and the quotas from the files of the control groups.

#include "common/processors.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <sched.h>

#include "common/files.h"
#include "common/text.h"

namespace dlrun {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFileLimitBytes = 64U << 10U;

/// Returns the numbers in a file's text, such as "150000 100000", with -1 in place of other words,
/// such as "max". Returns none if the file cannot be read.
std::vector<std::int64_t> numbers_in(const fs::path& file) {
  std::vector<std::int64_t> numbers;
  const auto text = read_file(file, kFileLimitBytes);
  if (!text) return numbers;
  for (const std::string_view word : split(trim(*text), ' '))
    numbers.push_back(parse_int(word).value_or(-1));
  return numbers;
}

/// Returns the quota of one group, in processors. Version 2 has one file with "QUOTA PERIOD";
/// version 1 has one file for the quota and one for the period. "max" and -1 mean no quota.
std::optional<double> quota_of(const fs::path& group) {
  auto numbers = numbers_in(group / "cpu.max");
  if (numbers.empty()) {
    numbers = numbers_in(group / "cpu.cfs_quota_us");
    const auto period = numbers_in(group / "cpu.cfs_period_us");
    numbers.insert(numbers.end(), period.begin(), period.end());
  }
  if (numbers.size() != 2 || numbers[0] <= 0 || numbers[1] <= 0) return std::nullopt;
  return static_cast<double>(numbers[0]) / static_cast<double>(numbers[1]);
}

/// Lowers `least` to the smallest quota of the groups from `mount` down to mount/group. Skips
/// groups that do not exist, because a container may show only the upper groups.
void lower_to_quotas(std::optional<double>& least, const fs::path& mount, const fs::path& group) {
  fs::path at = mount;
  const auto apply_quota = [&] {
    if (const auto quota = quota_of(at)) least = std::min(least.value_or(*quota), *quota);
  };
  apply_quota();
  for (const fs::path& part : group.relative_path()) {
    if (part == "..") continue;  // a group outside this namespace's root
    at /= part;
    apply_quota();
  }
}

}  // namespace

ProcessorSet own_processors() {
  ProcessorSet own;
  constexpr std::size_t kMost = ProcessorSet().size();
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(kMost),
                                                             [](cpu_set_t* at) { CPU_FREE(at); });
  if (set != nullptr && ::sched_getaffinity(0, CPU_ALLOC_SIZE(kMost), set.get()) == 0) {
    for (std::size_t i = 0; i < kMost; ++i)
      own[i] = CPU_ISSET_S(i, CPU_ALLOC_SIZE(kMost), set.get());
    return own;
  }
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
  for (std::size_t i = 0; i < std::min(kMost, static_cast<std::size_t>(std::max(online, 1L))); ++i)
    own.set(i);
  return own;
}

std::optional<double> cpu_quota(std::string_view cgroups, const fs::path& mount) {
  std::optional<double> least;
  for (const std::string_view line : split(cgroups, '\n')) {  // "NUMBER:CONTROLLERS:/GROUP"
    const auto first = line.find(':');
    const auto second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string controllers(line.substr(first + 1, second - first - 1));
    const fs::path group(line.substr(second + 1));
    if (controllers.empty()) {
      lower_to_quotas(least, mount, group);
      lower_to_quotas(least, mount / "unified", group);
      continue;
    }
    const auto names = split(controllers, ',');
    if (std::find(names.begin(), names.end(), "cpu") == names.end()) continue;
    lower_to_quotas(least, mount / controllers, group);
    if (names.size() > 1) lower_to_quotas(least, mount / "cpu", group);
  }
  return least;
}

std::optional<double> own_cpu_quota() {
  const auto cgroups = read_file("/proc/self/cgroup", kFileLimitBytes);
  return cgroups ? cpu_quota(*cgroups, "/sys/fs/cgroup") : std::nullopt;
}

int usable_processors(std::size_t processors, std::optional<double> quota) {
  const auto count = static_cast<double>(std::max<std::size_t>(processors, 1));
  return static_cast<int>(std::max(1.0, std::min(count, quota.value_or(count))));
}

int usable_processors() {
  return usable_processors(own_processors().count(), own_cpu_quota());
}

}  // namespace dlrun
