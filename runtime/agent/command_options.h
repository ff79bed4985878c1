#pragma once
// The parsers of the options of `lead` and of `rank`, which agent_options.cc calls.

#include <string>
#include <vector>

#include "common/result.h"
#include "runtime/agent/lead.h"
#include "runtime/agent/rank.h"

namespace dlrun::agent {

/// The largest value of --local and of --nproc-per-node.
inline constexpr int kLargestCountOnNode = 4096;

/// Parses the command line of `lead`, whose first argument is "lead". Fails with kUsage.
[[nodiscard]] Result<LeadOptions> parse_lead(const std::vector<std::string>& arguments);

/// Parses the command line of `rank`, whose first argument is "rank". Fails with kUsage.
[[nodiscard]] Result<RankOptions> parse_rank(const std::vector<std::string>& arguments);

}  // namespace dlrun::agent
