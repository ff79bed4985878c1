#include "launcher/spec/site_json.h"

#include "common/json_or_null.h"

namespace dlrun {

using Json = nlohmann::ordered_json;

namespace {

[[nodiscard]] Json fabric_json(const SiteFabric& fabric) {
  if (!fabric.is_given()) return Json();
  return {{"infiniband_ports", value_or_null(fabric.infiniband_ports)},
          {"infiniband_gbps", value_or_null(fabric.infiniband_gbps)},
          {"gpu_link", text_or_null(fabric.gpu_link)},
          {"all_reduce", value_or_null(fabric.all_reduce)},
          {"node_all_reduce", value_or_null(fabric.node_all_reduce)}};
}

}  // namespace

Json site_json(const Site& site, bool is_default) {
  const SiteProfile& profile = site.profile;
  Json json;
  json["name"] = profile.name;
  json["help"] = profile.help;
  json["source"] = profile.source;
  json["here"] = is_default;
  json["valid"] = site.problems.empty();
  json["docs"] = text_or_null(profile.docs);
  json["clusters"] = profile.cluster_patterns;
  json["gpu_style"] = profile.gpu_style;
  json["container_runtime"] = profile.container_runtime;
  json["mpi"] = text_or_null(profile.mpi);
  json["runs_dir"] = text_or_null(profile.runs_dir);
  json["interface"] = text_or_null(profile.interface);
  json["default_partition"] = text_or_null(profile.default_partition);
  json["max_gpus_per_node"] = value_or_null(profile.max_gpus_per_node);
  json["fabric"] = fabric_json(profile.fabric);
  json["environment"] = profile.environment;
  Json partitions = Json::array();
  for (const auto& [name, partition] : profile.partitions) {
    Json one;
    one["name"] = name;
    one["help"] = text_or_null(partition.help);
    one["gpus_per_node"] = value_or_null(partition.gpus_per_node);
    one["gpu_types"] = partition.gpu_types;
    one["cpus_per_node"] = value_or_null(partition.cpus_per_node);
    one["mem_per_node_mib"] = value_or_null(partition.mem_per_node_mib);
    one["max_nodes"] = value_or_null(partition.max_nodes);
    one["max_time_seconds"] = value_or_null(partition.max_time_seconds);
    one["fabric"] = fabric_json(partition.fabric);
    partitions.push_back(std::move(one));
  }
  json["partitions"] = std::move(partitions);
  return json;
}

}  // namespace dlrun
