#pragma once
// What a cluster's facts mean for dlrun, and the site file that they make.

#include <string>
#include <vector>

#include "launcher/doctor/cluster_facts.h"

namespace dlrun {

struct Finding {
  enum class Kind { kFine, kNote, kMissing };
  Kind kind = Kind::kFine;
  std::string what;   ///< "accounting"
  std::string is;     ///< "accounting_storage/none"
  std::string means;  ///< for dlrun
};

/// In the order in which one wants to read them.
[[nodiscard]] std::vector<Finding> findings(const ClusterFacts& facts);

/// The name of the draft: the cluster's, as far as it can be one.
[[nodiscard]] std::string draft_name(const ClusterFacts& facts);

/// A site file with a comment for what could not be known. It reads without a remark, whatever the
/// facts are.
[[nodiscard]] std::string site_draft(const ClusterFacts& facts);

}  // namespace dlrun
