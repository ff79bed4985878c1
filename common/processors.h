#pragma once
// Counts the processors that a process may use. Two limits apply: its affinity (taskset, a cpuset,
// srun's binding) and the quota of its control groups (a container's or job's share of processor
// time). The number of installed processors does not matter.

#include <bitset>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string_view>

namespace dlrun {

/// A set of processors: bit n is processor n. 8192 is the largest number that Linux supports.
using ProcessorSet = std::bitset<8192>;

/// Returns the processors on which the calling thread may run, or all online processors if the
/// kernel does not report them.
[[nodiscard]] ProcessorSet own_processors();

/// Returns the smallest quota of a process's control groups and their parents, in processors.
/// `cgroups` is the text of /proc/self/cgroup. `mount` is the directory where control groups are
/// mounted: version 1 (one directory per controller), version 2, or both (version 2 in `unified`).
/// Returns nullopt if no group has a quota.
[[nodiscard]] std::optional<double> cpu_quota(std::string_view cgroups,
                                              const std::filesystem::path& mount);

/// Returns this process's quota; nullopt if it has none.
[[nodiscard]] std::optional<double> own_cpu_quota();

/// Returns the smaller of `processors` and the quota, rounded down; at least 1. quota: nullopt if
/// there is none.
[[nodiscard]] int usable_processors(std::size_t processors, std::optional<double> quota);

/// Returns the number of processors that the calling thread may use, according to the thread's
/// affinity and this process's quota.
[[nodiscard]] int usable_processors();

}  // namespace dlrun
