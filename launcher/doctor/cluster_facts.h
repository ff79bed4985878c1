#pragma once
// What a live cluster says of itself through Slurm's own commands, and what the login node has.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "common/result.h"

namespace dlrun {

/// A partition: what its nodes have (the most of any of them) and what a job in it may ask for.
/// Absent: not said, or no limit.
struct PartitionFacts {
  std::string name;
  bool is_default = false, is_up = true;
  std::int64_t nodes = 0,
               nodes_in_use_or_idle = 0;  ///< all; those that are not down, drained or failed
  std::optional<std::int64_t> cpus_per_node, mem_per_node_mib, gpus_per_node;
  std::vector<std::string> gpu_types;  ///< in the order found, each once
  std::optional<std::int64_t> max_nodes, max_time_seconds, default_time_seconds;
};

struct ClusterFacts {
  std::map<std::string, std::string, std::less<>>
      config;  ///< scontrol show config; "(null)" and "N/A" are empty
  std::vector<PartitionFacts> partitions;
  std::vector<std::string> mpi_plugins;    ///< srun --mpi=list: pmix, pmi2 ...
  std::vector<std::string> pmix_versions;  ///< "pmix_v4"
  bool has_pyxis = false;                  ///< srun knows --container-image
  std::string enroot, apptainer;  ///< their versions on the login node, "" where they are not
  bool has_modules = false, has_slurmrestd = false, has_munge = false;
  std::string
      scratch_variable;  ///< SCRATCH, WORK ...: the first that names a folder one can write to
  std::vector<std::string>
      fast_networks;                    ///< interfaces of the login node by their names: ib0, hsn0
  std::vector<std::string> unanswered;  ///< questions that got no answer, and why

  [[nodiscard]] std::string setting(std::string_view name) const;
  [[nodiscard]] std::string cluster_name() const { return setting("ClusterName"); }
  [[nodiscard]] bool has_accounting() const;
  [[nodiscard]] bool has_mpi(std::string_view plugin) const;
};

/// Asks. cluster: another than the default one, by Slurm's -M; empty: that. Each question takes 15
/// s at most. Fails with kNotFound where there is no Slurm, with kUnavailable where the controller
/// does not answer; any other question may stay open (unanswered).
[[nodiscard]] Result<ClusterFacts> ask_cluster(const Env& env, const std::string& cluster = {});

// The answers, read tolerantly: fields and lines of other versions are passed over.

/// scontrol show config: "NAME = value" lines.
[[nodiscard]] std::map<std::string, std::string, std::less<>> parse_config(std::string_view text);
/// scontrol show partition --oneliner.
[[nodiscard]] std::vector<PartitionFacts> parse_partitions(std::string_view text);
/// sinfo -h -e -o kSinfoFormat, added to the partitions that it names.
inline constexpr std::string_view kSinfoFormat = "%R|%D|%c|%m|%G|%T";
void add_nodes(std::vector<PartitionFacts>& partitions, std::string_view text);
/// srun --mpi=list; pmix_versions are the plugin's versions where srun names them.
void read_mpi_list(ClusterFacts& facts, std::string_view text);
/// "gpu:a100:4(S:0-1),shard:2" -> 4, a100.
void add_gres(PartitionFacts& partition, std::string_view gres);

}  // namespace dlrun
