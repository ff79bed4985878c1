#include "launcher/doctor/doctor_json.h"

#include "common/json_or_null.h"

namespace dlrun {

using Json = nlohmann::ordered_json;

std::string_view finding_kind_text(Finding::Kind kind) {
  switch (kind) {
    case Finding::Kind::kFine:
      return "ok";
    case Finding::Kind::kNote:
      return "note";
    case Finding::Kind::kMissing:
      return "missing";
  }
  return "";
}

Json doctor_json(const ClusterFacts& facts, const std::optional<std::string>& site) {
  Json json;
  json["cluster"] = text_or_null(facts.cluster_name());
  json["slurm"] = text_or_null(facts.setting("SLURM_VERSION"));
  json["site"] = site ? Json(*site) : Json(nullptr);
  Json& all = json["findings"] = Json::array();
  for (const Finding& finding : findings(facts))
    all.push_back({{"kind", finding_kind_text(finding.kind)},
                   {"what", finding.what},
                   {"is", finding.is},
                   {"means", finding.means}});
  Json& partitions = json["partitions"] = Json::array();
  for (const PartitionFacts& partition : facts.partitions) {
    Json one;
    one["name"] = partition.name;
    one["default"] = partition.is_default;
    one["up"] = partition.is_up;
    one["nodes"] = partition.nodes;
    one["usable_nodes"] = partition.usable_nodes;
    one["gpus_per_node"] = value_or_null(partition.gpus_per_node);
    one["gpu_types"] = partition.gpu_types;
    one["cpus_per_node"] = value_or_null(partition.cpus_per_node);
    one["mem_per_node_mib"] = value_or_null(partition.mem_per_node_mib);
    one["max_nodes"] = value_or_null(partition.max_nodes);
    one["max_time_seconds"] = value_or_null(partition.max_time_seconds);
    one["default_time_seconds"] = value_or_null(partition.default_time_seconds);
    partitions.push_back(std::move(one));
  }
  json["site_file"] = site_draft(facts);
  return json;
}

}  // namespace dlrun
