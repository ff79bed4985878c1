#pragma once
// Lead's side of health.known_bad: adds the bad nodes of an attempt to the file that submissions of
// other runs read.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "runtime/agent/attempt.h"
#include "runtime/agent/lead.h"
#include "runtime/agent/run_claim.h"

namespace dlrun::agent {

/// Returns the nodes to remember as bad after an attempt: nodes that were lost or failed a check,
/// and after a hang also the suspects (AttemptEnd::suspects).
[[nodiscard]] std::vector<std::string> bad_nodes_of(const AttemptEnd& end);

/// Appends the nodes to options.file, on another thread. Waits at most kRememberTimeLimit, even if
/// the file system hangs. run, reason: the run and the reason that the file gives for these nodes.
/// Returns a sentence for the user: the nodes that were remembered, or the error.
[[nodiscard]] std::string remember_as_bad(const KnownBadOptions& options,
                                          const JobIdentity& identity, const std::string& run,
                                          const std::vector<std::string>& nodes,
                                          const std::string& reason);

inline constexpr std::chrono::seconds kRememberTimeLimit{5};

}  // namespace dlrun::agent
