#include "launcher/spec/site_text.h"

#include <algorithm>

#include "common/text.h"
#include "launcher/spec/value_syntax.h"

namespace dlrun {
namespace {

std::string gpu_option_text(const SiteProfile& profile) {
  return fmt::format(
      "requested with {}{}", profile.gpu_style == "gres" ? "--gres=gpu:N" : "--gpus-per-node=N",
      profile.max_gpus_per_node ? fmt::format(", at most {} per node", *profile.max_gpus_per_node)
                                : "");
}

}  // namespace

TableRows site_rows(const std::vector<Site>& sites, std::string_view default_site) {
  TableRows rows = {{"", "SITE", "CLUSTERS", "PARTITIONS", "WHAT IT IS"}};
  for (const Site& site : sites) {
    const SiteProfile& profile = site.profile;
    rows.push_back({profile.name == default_site ? "*" : " ", profile.name,
                    join(profile.cluster_patterns, " "),
                    profile.partitions.empty() ? "" : fmt::format("{}", profile.partitions.size()),
                    profile.help});
  }
  return rows;
}

LabelledLines site_lines(const SiteProfile& profile) {
  LabelledLines lines;
  add_line(lines, "", profile.help);
  add_line(lines, "file", profile.source);
  add_line(lines, "docs", profile.docs);
  add_line(lines, "clusters", join(profile.cluster_patterns, " "));
  add_line(lines, "GPUs", gpu_option_text(profile));
  // `dlrun doctor` examines the cluster; `dlrun site show` shows only what the site's file says.
  if (!profile.container_runtime.empty())
    lines.push_back({"containers", profile.container_runtime +
                                       ", unless a spec sets container.runtime; `dlrun doctor` "
                                       "says which tools are installed"});
  add_line(lines, "MPI",
           profile.mpi.empty()        ? "pmix"
           : profile.mpi == "default" ? "srun's own default"
                                      : profile.mpi);
  add_line(lines, "network", profile.interface);
  add_line(lines, "runs", profile.runs_dir.empty() ? "./runs" : profile.runs_dir);
  for (const auto& [name, value] : profile.environment)
    add_line(lines, "variable", fmt::format("{}={}", name, value));
  return lines;
}

bool has_unknown_limits(const SiteProfile& profile) {
  return std::any_of(profile.partitions.begin(), profile.partitions.end(), [](const auto& entry) {
    const PartitionProfile& partition = entry.second;
    return !partition.gpus_per_node || !partition.cpus_per_node || !partition.mem_per_node_mib ||
           !partition.max_nodes || !partition.max_time_seconds;
  });
}

TableRows partition_rows(const SiteProfile& profile) {
  TableRows rows = {
      {"", "PARTITION", "GPUS", "TYPES", "CPUS", "MEMORY", "NODES", "TIME", "WHAT IT IS"}};
  const auto shown = [](const std::optional<std::int64_t>& value) {
    return value ? fmt::format("{}", *value) : "?";
  };
  for (const auto& [name, partition] : profile.partitions) {
    rows.push_back(
        {name == profile.default_partition ? "*" : " ", name, shown(partition.gpus_per_node),
         join(partition.gpu_types, ","), shown(partition.cpus_per_node),
         partition.mem_per_node_mib ? fmt::format("{}G", *partition.mem_per_node_mib / 1024) : "?",
         shown(partition.max_nodes),
         partition.max_time_seconds ? format_time_limit(*partition.max_time_seconds) : "?",
         partition.help});
  }
  return rows;
}

}  // namespace dlrun
