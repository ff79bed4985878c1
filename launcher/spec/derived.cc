#include "launcher/spec/derived.h"

#include <algorithm>

#include "common/text.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/spec_keys.h"
#include "launcher/spec/value_syntax.h"

namespace dlrun {

std::string container_runtime(const JobSpec& spec, const SiteProfile& site) {
  const std::string asked = spec.container.runtime.value_or("auto");
  if (asked != "auto") return asked;
  return spec.container.image || spec.container.name ? site.container_runtime : "none";
}

std::optional<std::int64_t> gpus_per_node(const JobSpec& spec) {
  const Resources& r = spec.resources;
  if (r.gpus_per_node) return r.gpus_per_node->count;
  if (r.gres) return gpus_in_gres(*r.gres);
  if (r.gpus || r.gpus_per_task) return std::nullopt;
  return 0;
}

namespace {

/// Returns whether the keys request GPUs; nullopt if no key gives a number of GPUs.
std::optional<bool> keys_request_gpus(const Resources& r) {
  if (r.gpus) return r.gpus->count > 0;
  if (r.gpus_per_task) return r.gpus_per_task->count > 0;
  if (r.gpus_per_node) return r.gpus_per_node->count > 0;
  if (r.gres && (r.gres->find("gpu") != std::string::npos || *r.gres == "none"))
    return gpus_in_gres(*r.gres) > 0;
  return std::nullopt;
}

/// Returns whether an item in the value of an option of Slurm, such as a100:2 or gres/gpu=0, has a
/// count above 0. An item without a number counts 1.
bool counts_above_zero(std::string_view item) {
  item = trim(item.substr(0, item.find('(')));
  const auto sign = item.find_last_of(":=");
  return parse_int(sign == std::string_view::npos ? item : item.substr(sign + 1)) != 0;
}

/// Returns whether an option of Slurm requests GPUs; nullopt if it does not count GPUs.
std::optional<bool> option_requests_gpus(const SlurmOption& option) {
  const bool counts_only_gpus = option.name.starts_with("gpus");
  if (!counts_only_gpus && option.name != "gres" && !option.name.starts_with("tres-per-"))
    return std::nullopt;
  if (!option.value) return counts_only_gpus ? std::optional(true) : std::nullopt;
  if (option.name == "gres" && *option.value == "none") return false;
  std::optional<bool> found;
  for (const std::string_view item : split(*option.value, ',')) {
    if (!counts_only_gpus && item.find("gpu") == std::string_view::npos) continue;
    found = found.value_or(false) || counts_above_zero(item);
  }
  return found;
}

/// Returns whether options of Slurm request GPUs; nullopt if no option counts GPUs.
std::optional<bool> options_request_gpus(const JobSpec& spec) {
  std::optional<bool> found;
  for (const auto* options : {&spec.slurm, &spec.launch.srun}) {
    for (const SlurmOption& option : *options) {
      const auto requests = option_requests_gpus(option);
      if (requests) found = found.value_or(false) || *requests;
    }
  }
  return found;
}

}  // namespace

bool may_have_gpus(const JobSpec& spec) {
  if (const auto by_keys = keys_request_gpus(spec.resources)) return *by_keys;
  const auto mentions_gpus = [](const SlurmOption& option) {
    return option.name.starts_with("gpu") ||
           (option.value && option.value->find("gpu") != std::string::npos);
  };
  return spec.resources.exclusive ||
         std::any_of(spec.slurm.begin(), spec.slurm.end(), mentions_gpus) ||
         std::any_of(spec.launch.srun.begin(), spec.launch.srun.end(), mentions_gpus);
}

std::optional<bool> has_gpus(const JobSpec& spec, const SiteProfile& site) {
  if (const auto by_keys = keys_request_gpus(spec.resources)) return *by_keys;
  if (const auto by_options = options_request_gpus(spec)) return *by_options;
  if (!spec.resources.exclusive) return false;
  const auto found =
      site.partitions.find(spec.resources.partition.value_or(site.default_partition));
  // The site file gives the number of GPUs of the largest node; other nodes may have no GPUs.
  const auto max_gpus = found != site.partitions.end() && found->second.gpus_per_node
                            ? found->second.gpus_per_node
                            : site.max_gpus_per_node;
  return max_gpus == 0 ? std::optional(false) : std::nullopt;
}

std::optional<std::int64_t> nproc_per_node(const JobSpec& spec) {
  if (spec.launch.nproc_per_node) return spec.launch.nproc_per_node;
  if (spec.resources.gpus_per_task) return spec.resources.gpus_per_task->count;
  const auto gpus = gpus_per_node(spec);
  return gpus ? std::optional(std::max<std::int64_t>(*gpus, 1)) : std::nullopt;
}

bool wants_retry(const JobSpec& spec) {
  const RetrySpec& r = spec.retry;
  if (r.max) return *r.max > 0;
  return !r.on.empty() || r.exclude_bad_nodes || r.no_progress || r.grow_mem || r.chain;
}

std::int64_t retry_max(const JobSpec& spec) {
  return spec.retry.max.value_or(std::max(kDefaultRetryMax, spec.retry.chain.value_or(1) - 1));
}

std::vector<std::string> retry_causes(const JobSpec& spec) {
  if (!spec.retry.on.empty()) return spec.retry.on;
  std::vector<std::string> all;
  for (const std::string_view cause : split(find_key("retry.on"_key)->choices, ' ')) {
    if (cause != "timeout" || spec.checkpoint.signal_before) all.emplace_back(cause);
  }
  return all;
}

std::optional<std::int64_t> ranks_per_node(const JobSpec& spec) {
  const Resources& r = spec.resources;
  if (r.tasks_per_node) return r.tasks_per_node;
  if (r.ntasks) {
    if (r.nodes && r.nodes->min == r.nodes->max && *r.ntasks % r.nodes->min == 0)
      return *r.ntasks / r.nodes->min;
    return std::nullopt;
  }
  if (r.gpus_per_node && r.gpus_per_node->count > 0) return r.gpus_per_node->count;
  return 1;
}

const SiteFabric& fabric_of_job(const JobSpec& spec, const SiteProfile& site) {
  const auto found =
      site.partitions.find(spec.resources.partition.value_or(site.default_partition));
  return found != site.partitions.end() && found->second.fabric.is_given() ? found->second.fabric
                                                                           : site.fabric;
}

}  // namespace dlrun
