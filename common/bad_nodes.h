#pragma once
// The memory of bad nodes that runs share: one append-only file of checked lines
// (common/json_lines.h).
//
// Every line is one fact: a node was bad until a time, or was forgotten. Writers only append, one
// write(2) a line, so two runs that write at once lose nothing, and a torn line is skipped by its
// checksum. Lead writes the file and `dlrun nodes --forget` does; submissions read it. Other users
// may write it, too: readers take names of nodes and bounded text from it, nothing else.

#include <chrono>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "common/result.h"

namespace dlrun {

struct BadNode {
  std::string node;
  std::string cluster;  ///< Slurm's name of the cluster; empty where it was not known
  std::string reason;   ///< one sentence for people
  std::string run;      ///< the run's directory name
  std::string job;
  std::chrono::sys_seconds since{};
  std::chrono::sys_seconds until{};  ///< no longer bad from then on
};

/// Appends one line for each of nodes. Creates the file with the process's umask, so that a team
/// can share it. Fails with kIo.
[[nodiscard]] Result<> remember_bad_nodes(const std::filesystem::path& file,
                                          std::span<const BadNode> nodes);

/// Appends that node is bad no longer, on any cluster. Fails with kIo.
[[nodiscard]] Result<> forget_bad_node(const std::filesystem::path& file, const std::string& node,
                                       std::chrono::sys_seconds now);

/// Returns the nodes that are bad at `now`, sorted by cluster and name, each with its latest line.
/// A missing file holds none. Only the file's last mebibyte is read: what stands before it has
/// expired, or the file is not ours to trust. Fails with kIo, and with kInvalid where the path is
/// no regular file.
[[nodiscard]] Result<std::vector<BadNode>> read_bad_nodes(const std::filesystem::path& file,
                                                          std::chrono::sys_seconds now);

}  // namespace dlrun
