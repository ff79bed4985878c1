#pragma once
// What the machine's slurm.conf says, for what must be known without asking a daemon.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "common/env.h"

namespace dlrun {

/// ClusterName of the slurm.conf that Slurm's commands would read: $SLURM_CONF, else
/// /etc/slurm/slurm.conf or the copy that a configless node keeps. Empty where there is none or it
/// cannot be read.
[[nodiscard]] std::string slurm_cluster_name(const Env& env);

/// The array size that Slurm takes: task ids are below it. Asked of the controller (scontrol show
/// config), else read in the machine's slurm.conf, else Slurm's own default. cluster: -M; empty for
/// the default one.
[[nodiscard]] std::size_t max_array_size(const Env& env, const std::string& cluster);

/// The same without asking anybody, as rendering wants it.
[[nodiscard]] std::size_t configured_array_size(const Env& env);

/// MaxArraySize in the text of a slurm.conf, or of what scontrol prints; nothing where it is not
/// there.
[[nodiscard]] std::optional<std::size_t> array_size_in(std::string_view text);
/// The value of any key of that file that stands at a line's begin, in the same way.
[[nodiscard]] std::string slurm_conf_value(const Env& env, std::string_view key);

/// The value of ClusterName in the text of a slurm.conf; its keys and their case are Slurm's: any.
[[nodiscard]] std::string cluster_name_in(std::string_view slurm_conf);

}  // namespace dlrun
