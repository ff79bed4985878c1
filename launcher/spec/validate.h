#pragma once
// The checks that need more than one key, the site or the preset.

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/spec/load.h"

namespace dlrun {

/// Errors and warnings, in no order, without their lines' text. Nothing is said about keys in refused.
[[nodiscard]] std::vector<Diagnostic> validate(const LoadedSpec& loaded,
                                               const std::set<std::string, std::less<>>& refused);

/// Pairs of keys that say the same in two ways, so that a spec has one of them at most.
[[nodiscard]] std::span<const std::pair<std::string_view, std::string_view>> exclusive_keys();

/// The container runtime that `auto` or silence means: the site's where there is an image, else none.
[[nodiscard]] std::string container_runtime(const JobSpec& spec, const SiteProfile& site);

/// Ranks on each node as far as the spec fixes them: tasks_per_node, else gpus_per_node, else 1; nothing where only
/// ntasks is given and the nodes do not divide it.
[[nodiscard]] std::optional<std::int64_t> ranks_per_node(const JobSpec& spec);

/// Ranks that a preset's own launcher starts on each node: launch.nproc_per_node, else the node's GPUs, else 1; nothing
/// where only the whole job's GPUs are given.
[[nodiscard]] std::optional<std::int64_t> nproc_per_node(const JobSpec& spec);

/// What retry.max is where only another key of retry is given.
inline constexpr std::int64_t kRetryMax = 3;
/// Some key of retry is given, and its max is not 0.
[[nodiscard]] bool wants_retry(const JobSpec& spec);
/// retry.on, or what it is where it is not given.
[[nodiscard]] std::vector<std::string> retry_causes(const JobSpec& spec);

/// GPUs of each node as far as the spec fixes them; 0 where it asks for none.
[[nodiscard]] std::optional<std::int64_t> gpus_per_node(const JobSpec& spec);

}  // namespace dlrun
