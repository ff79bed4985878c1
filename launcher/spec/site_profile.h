#pragma once
// What is true of a cluster, so that specs need not say it: configs/sites/*.yaml, one file a site.
// docs/sites.md lists the keys.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dlrun {

/// What one node of a partition has, and what a job in it may ask for. Absent: not known, so
/// nothing is checked.
struct PartitionProfile {
  std::string help;
  std::optional<std::int64_t> gpus_per_node, cpus_per_node, max_nodes;
  std::vector<std::string> gpu_types;  ///< as Slurm names them: a100, 1g.5gb
  std::optional<std::int64_t> mem_per_node_mib;
  std::optional<std::int64_t> max_time_seconds;  ///< the longest time limit
};

struct SiteProfile {
  std::string name;
  std::string source;  ///< the file, or "built-in sites/NAME.yaml"
  std::string help;
  std::string docs;                        ///< where the cluster's own pages are
  std::vector<std::string> cluster_names;  ///< POSIX extended expressions; each must match the
                                           ///< whole of Slurm's ClusterName, in any case
  std::string gpu_style = "gpus";          ///< "gpus": --gpus-per-node; "gres": --gres=gpu:N
  std::string container_runtime = "none";  ///< what `container.runtime: auto` means
  std::string mpi;       ///< srun's --mpi where the spec is silent and the preset wants MPI; empty:
                         ///< "pmix"; "default": srun's own, unsaid
  std::string runs_dir;  ///< may hold ${VAR}; empty, or a variable that is not set: ./runs
  std::string module_init;        ///< file to source for `module`; empty: searched by the script
  std::string interface;          ///< network interface for collectives; empty: not named
  std::string default_partition;  ///< the one that Slurm takes where a job names none
  std::optional<std::int64_t> max_gpus_per_node;
  std::map<std::string, PartitionProfile, std::less<>> partitions;
  std::map<std::string, std::string, std::less<>>
      environment;  ///< exported by every script, e.g. PMIX_MCA_gds
};

}  // namespace dlrun
