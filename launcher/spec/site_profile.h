#pragma once
// What is true of a cluster, so that specs need not say it: configs/sites/*.yaml, one file a site.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dlrun {

struct PartitionProfile {
  std::optional<std::int64_t> gpus_per_node, cpus_per_node, max_nodes;
  std::string time;  ///< the longest time limit, Slurm's form; empty: not known
};

struct SiteProfile {
  std::string name;
  std::string source;                      ///< file, or "built-in"
  std::vector<std::string> cluster_names;  ///< Slurm's ClusterName values that mean this site
  std::string gpu_style = "gpus";          ///< "gpus": --gpus-per-node; "gres": --gres=gpu:N
  std::string container_runtime = "none";  ///< what `container.runtime: auto` means
  std::string mpi;          ///< srun's --mpi where the spec is silent and the preset wants MPI; empty: "pmix"
  std::string runs_dir;     ///< may hold ${VAR}; empty: ./runs
  std::string module_init;  ///< file to source for `module`; empty: searched by the script
  std::string interface;    ///< network interface for collectives; empty: not named
  std::string default_partition;
  std::optional<std::int64_t> max_gpus_per_node;
  std::map<std::string, PartitionProfile, std::less<>> partitions;
  std::map<std::string, std::string, std::less<>> environment;  ///< exported by every script, e.g. PMIX_MCA_gds
};

}  // namespace dlrun
