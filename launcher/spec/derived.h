#pragma once
// What a spec means where no key says it outright: follows from several keys, or from the site.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/spec/site_profile.h"
#include "launcher/spec/spec.h"

namespace dlrun {

/// The container runtime that `auto` or silence means: the site's where there is an image, else
/// none.
[[nodiscard]] std::string container_runtime(const JobSpec& spec, const SiteProfile& site);

/// Ranks on each node as far as the spec fixes them: tasks_per_node, else gpus_per_node, else 1;
/// nothing where only ntasks is given and the nodes do not divide it.
[[nodiscard]] std::optional<std::int64_t> ranks_per_node(const JobSpec& spec);

/// Ranks that a preset's own launcher starts on each node: launch.nproc_per_node, else the node's
/// GPUs, else 1; nothing where only the whole job's GPUs are given.
[[nodiscard]] std::optional<std::int64_t> nproc_per_node(const JobSpec& spec);

/// What retry.max is where only another key of retry is given.
inline constexpr std::int64_t kRetryMax = 3;
/// Some key of retry is given, and its max is not 0.
[[nodiscard]] bool wants_retry(const JobSpec& spec);
/// retry.on, or what it is where it is not given.
[[nodiscard]] std::vector<std::string> retry_causes(const JobSpec& spec);

/// GPUs of each node as far as the spec fixes them; 0 where it asks for none.
[[nodiscard]] std::optional<std::int64_t> gpus_per_node(const JobSpec& spec);
/// False where no key asks for GPUs: Slurm then hides them. Whole nodes (resources.exclusive) come
/// with theirs.
[[nodiscard]] bool may_have_gpus(const JobSpec& spec);

}  // namespace dlrun
