#pragma once
// Slurm's node lists: n[1-3,7],gpu[01-16]-ib0 and the like.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace dlrun {

/// The nodes that Slurm's expression names, in its order, duplicates kept, as `scontrol show
/// hostnames` prints them. Several brackets in a name multiply, the last varying fastest. Fails
/// with kInvalid on malformed input and on more than limit nodes, before it allocates them.
[[nodiscard]] Result<std::vector<std::string>> expand_hostlist(std::string_view expression,
                                                               std::size_t limit = 100'000);

/// Whether a person's node list is one: names of letters, digits, '.', '_' and '-', brackets with
/// numbers and ranges, commas between them; no file of names. Fails with kInvalid, says which
/// character is wrong, and is cheap for any text.
[[nodiscard]] Result<> check_hostlist(std::string_view expression);

/// A node list that expands to exactly hosts, in their order; consecutive numbers of one width are
/// ranges.
[[nodiscard]] std::string compress_hostlist(std::span<const std::string> hosts);

}  // namespace dlrun
