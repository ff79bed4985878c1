#pragma once
// On how many processors of this machine a process may run: its affinity (taskset, a cpuset, srun's
// binding) and the quota of its control groups (a container's or a job's share of processor time)
// both count, not what is installed.

#include <bitset>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string_view>

namespace dlrun {

/// Bit n: processor n of the machine. As many as Linux can be built for.
using ProcessorSet = std::bitset<8192>;

/// Returns the processors on which the calling thread may run; all that are online where the kernel
/// does not say.
[[nodiscard]] ProcessorSet own_processors();

/// Returns how many processors' time the control groups leave: the least quota of the groups in
/// cgroups, the text of /proc/self/cgroup, and of those above them. mount: where the groups are
/// mounted, version 1 (a folder for each controller), version 2, or both (version 2 in `unified`).
/// Returns nothing where no group has a quota.
[[nodiscard]] std::optional<double> cpu_quota(std::string_view cgroups,
                                              const std::filesystem::path& mount);

/// Returns this process's quota.
[[nodiscard]] std::optional<double> own_cpu_quota();

/// Returns how many of processors a quota can keep busy all the time: 1 at least.
[[nodiscard]] int usable_processors(std::size_t processors, std::optional<double> quota);

/// Returns how many processors the calling thread may use, by its affinity and this process's
/// quota.
[[nodiscard]] int usable_processors();

}  // namespace dlrun
