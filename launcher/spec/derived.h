#pragma once
// Values that are derived from several keys of a spec, or from the site.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/spec/site_profile.h"
#include "launcher/spec/spec.h"

namespace dlrun {

/// Returns container.runtime if it is a runtime or "none". Otherwise returns the site's
/// runtime for a spec with an image or a container name, and "none" for other specs.
[[nodiscard]] std::string container_runtime(const JobSpec& spec, const SiteProfile& site);

/// Returns the number of ranks that srun starts on each node: resources.tasks_per_node, else
/// resources.ntasks divided by the nodes, else resources.gpus_per_node, else 1. GPUs that another
/// key requests, such as resources.gres, do not count. Returns nullopt if ntasks would decide, but
/// resources.nodes is missing, is a range, or does not divide ntasks evenly.
[[nodiscard]] std::optional<std::int64_t> ranks_per_node(const JobSpec& spec);

/// Returns the number of processes that a preset's own launcher starts on each node:
/// launch.nproc_per_node, else gpus_per_task, else the node's GPUs, else 1. Returns nullopt if only
/// the number of the whole job's GPUs is known.
[[nodiscard]] std::optional<std::int64_t> nproc_per_node(const JobSpec& spec);

/// The default of retry.max if another key of retry is set.
inline constexpr std::int64_t kDefaultRetryMax = 3;
/// Returns the largest number of restarts: retry.max, else kDefaultRetryMax, or more if retry.chain
/// needs more. Only for a spec that wants_retry().
[[nodiscard]] std::int64_t retry_max(const JobSpec& spec);
/// Returns true if a key of retry is set and retry.max is not 0.
[[nodiscard]] bool wants_retry(const JobSpec& spec);
/// Returns retry.on. If it is absent, returns all causes, but `timeout` only if
/// checkpoint.signal_before is set.
[[nodiscard]] std::vector<std::string> retry_causes(const JobSpec& spec);

/// Returns the figures of the fabric (ports, links, speeds) that the site file gives for the job's
/// partition, or those of the whole site if the partition has none.
[[nodiscard]] const SiteFabric& fabric_of_job(const JobSpec& spec, const SiteProfile& site);

/// Returns the number of GPUs of each node, from resources.gpus_per_node or resources.gres; 0 if
/// the spec requests none, nullopt if it counts GPUs in another way (resources.gpus,
/// resources.gpus_per_task).
[[nodiscard]] std::optional<std::int64_t> gpus_per_node(const JobSpec& spec);
/// Returns true if the job may get GPUs. If a key of `resources` gives a number of GPUs, that
/// number decides. Otherwise the job may get GPUs if an option of Slurm mentions GPUs, or if the
/// job has whole nodes (resources.exclusive): Slurm hides the GPUs of a node from jobs that neither
/// request GPUs nor have the whole node.
[[nodiscard]] bool may_have_gpus(const JobSpec& spec);
/// Returns whether the ranks get GPUs. If a key of `resources` or an option of Slurm gives a number
/// of GPUs, that number decides. If nothing gives a number, returns false for a job that shares its
/// nodes, and if the nodes have no GPUs according to the site file. Returns nullopt for a job with
/// whole nodes (resources.exclusive) that may have GPUs.
[[nodiscard]] std::optional<bool> has_gpus(const JobSpec& spec, const SiteProfile& site);

}  // namespace dlrun
