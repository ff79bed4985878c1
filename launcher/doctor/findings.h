#pragma once
// Interprets a cluster's facts for dlrun, and drafts a site file from them.

#include <string>
#include <vector>

#include "launcher/doctor/cluster_facts.h"

namespace dlrun {

/// One fact about the cluster, and its consequence.
struct Finding {
  enum class Kind { kFine, kNote, kMissing };
  Kind kind = Kind::kFine;
  std::string what;   ///< "accounting"
  std::string is;     ///< "accounting_storage/none"
  std::string means;  ///< the consequence for dlrun
};

/// Returns the findings in a fixed order: MPI, GPUs, containers, jobs, slurmrestd, the login node,
/// queries without an answer.
[[nodiscard]] std::vector<Finding> findings(const ClusterFacts& facts);

/// Returns the draft's name: at most 64 characters of the cluster's name, with '-' in place of each
/// character that a site's name cannot contain; "mine" if the result is not a valid name.
[[nodiscard]] std::string site_draft_name(const ClusterFacts& facts);

/// Returns a site file. Keys that the facts do not decide are commented out. The file can be read
/// without errors or warnings, whatever the facts are.
[[nodiscard]] std::string site_draft(const ClusterFacts& facts);

}  // namespace dlrun
