#pragma once
// The effects of NVIDIA's hooks, which enroot runs when it starts a container: 50-slurm-pmi.sh,
// 50-slurm-pytorch.sh and 98-nvidia.sh of enroot 4.1.2. The machine images of cloud vendors enable
// these hooks.

#include <map>
#include <string>

#include "stand_in.h"

namespace stand_in {

using Environment = std::map<std::string, std::string>;

/// Runs the hooks. They read the environment of this process, which is that of a task or comes from
/// pyxis, and read and change `environment`, which is the container's. Returns lines of an fstab to
/// mount below `root`. Exits where a hook would fail.
[[nodiscard]] Words run_hooks(const fs::path& root, Environment& environment);

}  // namespace stand_in
