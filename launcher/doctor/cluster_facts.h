#pragma once
// Asks Slurm's commands for facts about a live cluster, and examines the login node.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "common/result.h"
#include "launcher/spec/rest_server.h"

namespace dlrun {

/// A partition: the resources of its nodes (the largest values) and the limits of a job in it. A
/// value is absent if Slurm does not state it, or if there is no limit.
struct PartitionFacts {
  std::string name;
  bool is_default = false, is_up = true;
  std::int64_t nodes = 0;         ///< all nodes of the partition
  std::int64_t usable_nodes = 0;  ///< nodes that accept jobs, now or later
  std::optional<std::int64_t> cpus_per_node, mem_per_node_mib, gpus_per_node;
  std::vector<std::string> gpu_types;  ///< in the order found, each once
  std::optional<std::int64_t> max_nodes, max_time_seconds, default_time_seconds;
};

/// A slurmrestd that a site file lists.
struct RestServerFacts {
  std::string url;
  std::vector<std::string> served_versions;  ///< the versions of the API that it serves: "v0.0.42"
  std::string problem;                       ///< the error message if it did not answer, else empty
  std::string configured_version = {};       ///< from the site file; empty: not configured
};

/// The answers of one cluster, and facts about the login node.
struct ClusterFacts {
  /// The output of scontrol show config; "(null)" and "N/A" become empty.
  std::map<std::string, std::string, std::less<>> config;
  std::vector<PartitionFacts> partitions;
  std::vector<std::string> mpi_plugins;    ///< srun --mpi=list: pmix, pmi2 ...
  std::vector<std::string> pmix_versions;  ///< "pmix_v4"
  bool has_pyxis = false;                  ///< srun has the option --container-image
  /// Container tools of the login node and their versions, in the order of preference.
  std::vector<std::pair<std::string, std::string>> container_tools;
  /// Whether the login node has the command `module`, and the program slurmrestd.
  bool has_modules = false, has_slurmrestd = false;
  /// The first of SCRATCH, WORK, PSCRATCH and SCRATCHDIR whose value is a writable folder; empty if
  /// there is none.
  std::string scratch_variable;
  /// Interfaces of the login node whose names are usual for fast networks: ib0, hsn0.
  std::vector<std::string> fast_networks;
  std::vector<RestServerFacts> rest_servers;  ///< from ask_rest_servers(), not from ask_cluster()
  std::vector<std::string> query_errors;      ///< the errors of the queries that failed

  /// Returns a setting of `config`; empty if `config` does not have it.
  [[nodiscard]] std::string setting(std::string_view name) const;
  [[nodiscard]] std::string cluster_name() const { return setting("ClusterName"); }
  [[nodiscard]] bool has_accounting() const;
  [[nodiscard]] bool has_mpi(std::string_view plugin) const;
};

/// Queries the cluster. `cluster`: a cluster's name for Slurm's -M; empty: the default cluster.
/// Each query times out after 15 s. Fails with kNotFound if scontrol or sinfo is not in PATH. If
/// the first query fails, fails with its error: kUnavailable if the controller does not answer. If
/// a later query fails, `query_errors` holds its error.
[[nodiscard]] Result<ClusterFacts> ask_cluster(const Env& env, const std::string& cluster = {});

/// Asks each server for the versions of the API that it serves. Each query times out after 30 s.
[[nodiscard]] std::vector<RestServerFacts> ask_rest_servers(const std::vector<RestServer>& servers);

// Parsers of the answers. The parsers skip unknown fields and lines, which differ between the
// versions of Slurm.

/// Parses the "NAME = value" lines of scontrol show config.
[[nodiscard]] std::map<std::string, std::string, std::less<>> parse_config(std::string_view text);
/// Parses the output of scontrol show partition --oneliner.
[[nodiscard]] std::vector<PartitionFacts> parse_partitions(std::string_view text);
/// The format of sinfo's lines: partition, number of nodes, CPUs, memory, gres and state.
inline constexpr std::string_view kSinfoFormat = "%R|%D|%c|%m|%G|%T";
/// Parses the output of sinfo -h -e -o kSinfoFormat, and adds the resources and the number of
/// usable nodes to the partitions. Skips nodes of a partition that is not in `partitions`.
void add_node_facts(std::vector<PartitionFacts>& partitions, std::string_view text);
/// Parses the output of srun --mpi=list. Adds the plugins to facts.mpi_plugins, and the versions of
/// pmix to facts.pmix_versions if srun prints them.
void add_mpi_plugins(ClusterFacts& facts, std::string_view text);
/// Reads the number and the type of a node's GPUs from its gres text: 4 and a100 for
/// "gpu:a100:4(S:0-1),shard:2". Raises the partition's gpus_per_node to this number if it is
/// larger, and adds the type to gpu_types if it is new.
void add_gres(PartitionFacts& partition, std::string_view gres);

}  // namespace dlrun
