#pragma once
// health.known_bad, lead's side: an attempt's bad nodes go into the file that other runs'
// submissions read.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "runtime/agent/attempt.h"
#include "runtime/agent/lead.h"
#include "runtime/agent/run_claim.h"

namespace dlrun::agent {

/// Returns the nodes that an attempt's end speaks against: those that were lost or not fit, and
/// those whose rank hung.
[[nodiscard]] std::vector<std::string> bad_nodes_of(const AttemptEnd& end);

/// Appends nodes to the memory, beside the caller's thread: a file system that hangs costs at most
/// kMemoryLimit. Returns a sentence for the user: what was remembered, or why it could not be.
[[nodiscard]] std::string remember(const KnownBadOptions& options, const JobIdentity& identity,
                                   const std::string& run, const std::vector<std::string>& nodes,
                                   const std::string& reason);

inline constexpr std::chrono::seconds kMemoryLimit{5};

}  // namespace dlrun::agent
