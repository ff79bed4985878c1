#pragma once
// The tables of `dlrun doctor`.

#include "common/shown_data.h"
#include "launcher/doctor/cluster_facts.h"

namespace dlrun {

/// Returns a table of the cluster's partitions.
[[nodiscard]] TableRows partition_rows(const ClusterFacts& facts);

}  // namespace dlrun
