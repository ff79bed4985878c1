#pragma once
// A row of the key table in words: what `dlrun explain`, the key reference and the man page say of
// it.

#include <string>
#include <string_view>

#include "launcher/spec/spec_keys.h"

namespace dlrun {

struct KeyHelp {
  std::string type;   ///< "whole number", "list of mounts"
  std::string range;  ///< "1 to 1000000", "one of: cpu cuda"; empty: none to tell
  std::string makes;  ///< "#SBATCH --nodes=...", "srun --mpi=...", "dlrun-trainer --lr ..."; empty:
                      ///< no option
  std::string example;  ///< the example nested as a spec has it: "resources: {nodes: 2}"
};

[[nodiscard]] KeyHelp describe_key(const KeyRow& row);

/// Every key as "PATH  HELP" has to be found by: the keys at and below a section, or all of them
/// for "".
[[nodiscard]] std::vector<const KeyRow*> keys_below(std::string_view section);

/// "there is no key 'resources.node'; did you mean 'resources.nodes'?"
[[nodiscard]] std::string no_such_key(std::string_view path);

}  // namespace dlrun
