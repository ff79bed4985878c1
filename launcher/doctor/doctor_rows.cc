#include "launcher/doctor/doctor_rows.h"

#include "common/text.h"
#include "launcher/spec/value_syntax.h"

namespace dlrun {

TableRows partition_rows(const ClusterFacts& facts) {
  const auto shown = [](const std::optional<std::int64_t>& value) {
    return value ? fmt::format("{}", *value) : "-";
  };
  const auto time = [](const std::optional<std::int64_t>& value) {
    return value ? format_time_limit(*value) : "no limit";
  };
  TableRows rows = {{"", "PARTITION", "NODES", "USABLE", "GPUS", "TYPES", "CPUS", "MEMORY",
                     "TIME LIMIT", "DEFAULT TIME"}};
  for (const PartitionFacts& partition : facts.partitions) {
    rows.push_back(
        {partition.is_default ? "*" : " ", printable(partition.name),
         fmt::format("{}", partition.nodes),
         partition.is_up ? fmt::format("{}", partition.usable_nodes) : "not up",
         shown(partition.gpus_per_node), printable(join(partition.gpu_types, ",")),
         shown(partition.cpus_per_node),
         partition.mem_per_node_mib ? fmt::format("{}G", *partition.mem_per_node_mib / 1024) : "-",
         time(partition.max_time_seconds),
         partition.default_time_seconds ? format_time_limit(*partition.default_time_seconds)
                                        : "the time limit"});
  }
  return rows;
}

}  // namespace dlrun
