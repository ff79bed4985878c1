#pragma once
// What the machine's slurm.conf says, for what must be known without asking a daemon.

#include <string>
#include <string_view>

#include "common/env.h"

namespace dlrun {

/// ClusterName of the slurm.conf that Slurm's commands would read: $SLURM_CONF, else /etc/slurm/slurm.conf or the copy
/// that a configless node keeps. Empty where there is none or it cannot be read.
[[nodiscard]] std::string slurm_cluster_name(const Env& env);

/// The value of ClusterName in the text of a slurm.conf; its keys and their case are Slurm's: any.
[[nodiscard]] std::string cluster_name_in(std::string_view slurm_conf);

}  // namespace dlrun
