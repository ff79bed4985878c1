#pragma once
// What NVIDIA's hooks do as enroot starts a container: 50-slurm-pmi.sh, 50-slurm-pytorch.sh and
// 98-nvidia.sh of enroot 4.1.2, which images of cloud vendors enable.

#include <map>
#include <string>

#include "stand_in.h"

namespace stand_in {

using Environment = std::map<std::string, std::string>;

/// Reads this process's environment, which is the task's or pyxis's, and the container's, which it
/// changes. Lines of an fstab that are to be mounted below root come back. Dies where a hook would.
[[nodiscard]] Words run_hooks(const fs::path& root, Environment& environment);

}  // namespace stand_in
