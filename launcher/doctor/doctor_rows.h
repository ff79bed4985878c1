#pragma once
// The table of partitions that `dlrun doctor` shows.

#include "common/shown_data.h"
#include "launcher/doctor/cluster_facts.h"

namespace dlrun {

[[nodiscard]] TableRows partition_rows(const ClusterFacts& facts);

}  // namespace dlrun
