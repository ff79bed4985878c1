#pragma once
// Checks the links of a node against the figures of the site (health.preflight: fabric): InfiniBand
// ports, and links between the node's GPUs. The check of collectives measures the speed of
// all-reduce (collective_check.h).

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "common/result.h"
#include "runtime/bootstrap/world.h"

namespace dlrun::agent {

/// The figures that the site expects of a node. An absent figure is not checked.
struct FabricFigures {
  std::optional<std::int64_t> infiniband_ports{};  ///< least number of active ports of a node
  std::optional<std::int64_t> infiniband_gbps{};   ///< least rate of each active port, in Gb/s
  bool needs_nvlink = false;                       ///< NVLink must connect all GPUs of a node
  /// Least bus bandwidth of all-reduce in GB/s: among all ranks, and among the ranks of a node.
  std::optional<std::int64_t> all_reduce{}, node_all_reduce{};

  /// Parses a list such as "infiniband_ports=4,gpu_link=nvlink". The names are those of the site
  /// file. Fails with kUsage for another name or value.
  [[nodiscard]] static Result<FabricFigures> parse(std::string_view words);
};

/// Returns the problems of a node's InfiniBand ports. folder: /sys/class/infiniband. A port that
/// has a physical link must be active, even if there are no figures.
[[nodiscard]] std::vector<std::string> infiniband_problems(const FabricFigures& figures,
                                                           const std::filesystem::path& folder);

/// Returns a problem for each pair of GPUs that NVLink does not connect. If the matrix has
/// no GPUs, returns one problem that says so. matrix: the output of `nvidia-smi topo -m`.
[[nodiscard]] std::vector<std::string> gpu_link_problems(std::string_view matrix);

/// Returns the problems of the node. Only the first rank of a node checks. Runs nvidia-smi (at most
/// 60 s) if the site expects NVLink and the rank may use GPUs: gpu_scope() is not kNone.
/// infiniband: /sys/class/infiniband.
[[nodiscard]] std::vector<std::string> fabric_problems(const FabricFigures& figures, const Env& env,
                                                       const World& world,
                                                       const std::filesystem::path& infiniband);

}  // namespace dlrun::agent
