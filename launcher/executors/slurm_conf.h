#pragma once
// Reads facts from this machine's slurm.conf. Only answering_cluster_name() and max_array_size()
// ask the controller.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "common/env.h"

namespace dlrun {

/// Returns ClusterName from the slurm.conf that Slurm's commands would read: $SLURM_CONF, else
/// slurm.conf in /etc/slurm or /etc/slurm-llnl, else the copy that a configless node has. Returns
/// an empty text if there is no such file, or if it cannot be read.
[[nodiscard]] std::string configured_cluster_name(const Env& env);

/// Returns the name of the cluster whose controller answers Slurm's commands (scontrol show
/// config). SLURM_CLUSTERS may choose another cluster than that of slurm.conf. Returns an empty
/// text if no controller answers.
[[nodiscard]] std::string answering_cluster_name(const Env& env);

/// Returns MaxArraySize; all task ids are smaller. Asks the controller (scontrol show config).
/// Without an answer, reads this machine's slurm.conf. If this file does not set MaxArraySize
/// either, returns Slurm's default, 1001. cluster: the value of -M; empty for the default cluster.
[[nodiscard]] std::size_t max_array_size(const Env& env, const std::string& cluster);

/// Returns MaxArraySize from this machine's slurm.conf, else Slurm's default. Does not ask the
/// controller.
[[nodiscard]] std::size_t configured_max_array_size(const Env& env);

/// Returns MaxArraySize from the text of a slurm.conf or from scontrol's output; nullopt if the
/// text does not have it.
[[nodiscard]] std::optional<std::size_t> max_array_size_in(std::string_view text);

/// Returns the first word of a key's value in the slurm.conf that configured_cluster_name() reads;
/// empty if the key is missing.
[[nodiscard]] std::string slurm_conf_value(const Env& env, std::string_view key);

/// Returns the value of ClusterName in the text of a slurm.conf or in scontrol's output; empty if
/// the text does not have it. The case of keys does not matter, as in Slurm.
[[nodiscard]] std::string cluster_name_in(std::string_view text);

}  // namespace dlrun
