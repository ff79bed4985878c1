#pragma once
// Slurm's node lists, for example n[1-3,7],gpu[01-16]-ib0.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace dlrun {

/// Returns the nodes of a list in the order of the list, with duplicates, as `scontrol show
/// hostnames` does. If a name has several brackets, the last bracket varies fastest. An empty text
/// has no nodes. Fails with kInvalid if the list is malformed, longer than 1 MiB, or has more than
/// `limit` nodes. Checks this before it allocates memory for the nodes.
[[nodiscard]] Result<std::vector<std::string>> expand_hostlist(std::string_view expression,
                                                               std::size_t limit = 100'000);

/// Checks a node list written by a person. Accepts names that are separated by commas and consist
/// of letters, digits, '.', '_', '-' and brackets with numbers and ranges. Unlike Slurm, does not
/// accept the path of a file of names. Fails with kInvalid, also for an empty list and for more
/// than 65,536 nodes, Slurm's limit. Does not expand the list.
[[nodiscard]] Result<> check_hostlist(std::string_view expression);

/// Returns a node list that expands to exactly these hosts in this order. Consecutive numbers of
/// one width become ranges.
[[nodiscard]] std::string compress_hostlist(std::span<const std::string> hosts);

}  // namespace dlrun
