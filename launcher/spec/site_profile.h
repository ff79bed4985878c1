#pragma once
// Facts about a cluster, so that specs need not state them: configs/sites/*.yaml, one file per
// site. docs/sites.md lists the keys.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dlrun {

/// The figures of the fabric (ports, links, speeds) that the check `fabric` of health.preflight
/// expects. An absent figure is not checked.
struct SiteFabric {
  std::optional<std::int64_t> infiniband_ports;  ///< active ports of a node
  std::optional<std::int64_t> infiniband_gbps;   ///< of each port, in Gb/s
  /// "nvlink": NVLink connects all GPUs of a node. Empty: the check ignores the links.
  std::string gpu_link;
  /// The least bus bandwidth of all-reduce in GB/s: among all ranks, and among the ranks of a node.
  std::optional<std::int64_t> all_reduce, node_all_reduce;
  [[nodiscard]] bool is_given() const {
    return infiniband_ports || infiniband_gbps || !gpu_link.empty() || all_reduce ||
           node_all_reduce;
  }
};

/// The resources of one node of a partition, and the limits of a job in it. An absent value is
/// unknown and is not checked.
struct PartitionProfile {
  std::string help;
  std::optional<std::int64_t> gpus_per_node, cpus_per_node, max_nodes;
  std::vector<std::string> gpu_types;  ///< in Slurm's names: a100, 1g.5gb
  std::optional<std::int64_t> mem_per_node_mib;
  std::optional<std::int64_t> max_time_seconds;  ///< the longest time limit
  SiteFabric fabric;                             ///< replaces the site's fabric
};

/// The facts about one cluster.
struct SiteProfile {
  std::string name;
  std::string source;  ///< the file's path, or "built-in sites/NAME.yaml"
  std::string help;
  std::string docs;  ///< the address of the cluster's documentation
  /// POSIX extended regular expressions. The cluster belongs to the site if one of them matches the
  /// whole of Slurm's ClusterName; case is ignored.
  std::vector<std::string> cluster_patterns;
  std::string gpu_style = "gpus";          ///< "gpus": --gpus-per-node; "gres": --gres=gpu:N
  std::string container_runtime = "none";  ///< the runtime that `container.runtime: auto` selects
  /// The value of srun's --mpi if the spec does not set launch.mpi and the preset wants MPI. Empty:
  /// "pmix". "default": no --mpi option, so that srun's own default applies.
  std::string mpi;
  /// The runs folder; may hold ${VAR}. Empty, or a variable that is not set: ./runs.
  std::string runs_dir;
  std::string module_init;  ///< the file that defines `module`; empty: the script looks for it
  std::string interface;    ///< network interface for collectives; empty: none is set
  std::string default_partition;                  ///< Slurm's choice for a job that requests none
  std::optional<std::int64_t> max_gpus_per_node;  ///< in any partition; absent: not checked
  SiteFabric fabric;
  std::map<std::string, PartitionProfile, std::less<>> partitions;
  /// Variables that every script exports, such as PMIX_MCA_gds.
  std::map<std::string, std::string, std::less<>> environment;
};

}  // namespace dlrun
