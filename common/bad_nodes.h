#pragma once
// The list of bad nodes that runs share: one append-only file of lines with checksums
// (common/json_lines.h).
//
// Each line states that a node is bad until a given time, or that it is good again because a user
// called `dlrun nodes --forget`. A writer appends all its lines with one write(2), so two
// concurrent writers lose nothing. Readers skip an incomplete line, because its checksum is wrong.
// Lead and `dlrun nodes --forget` write the file; submissions read it. Other users may have write
// access to the file. Readers therefore use only node names and bounded text from the file.

#include <chrono>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "common/result.h"

namespace dlrun {

struct BadNode {
  std::string node;
  std::string cluster;  ///< Slurm's name of the cluster; empty if unknown
  std::string reason;   ///< one sentence for people
  std::string run;      ///< name of the run directory
  std::string job;
  std::chrono::sys_seconds since{};
  std::chrono::sys_seconds until{};  ///< the node counts as good from this time on
};

/// Appends one line per node, with the first 400 bytes of its reason. Creates the file with the
/// process's umask, so that a team can share it. Fails with kIo, and with kInvalid if the path is
/// not a regular file, is a symbolic link or has several hard links.
[[nodiscard]] Result<> remember_bad_nodes(const std::filesystem::path& file,
                                          std::span<const BadNode> nodes);

/// Appends a line saying that the node is good again, on all clusters. Fails like
/// remember_bad_nodes().
[[nodiscard]] Result<> forget_bad_node(const std::filesystem::path& file, const std::string& node,
                                       std::chrono::sys_seconds now);

/// Returns the nodes that are bad at `now`, sorted by cluster and name, each with its latest
/// entry. A missing file means no bad nodes. Reads only the last mebibyte of the file; entries
/// before it have normally expired. Fails with kIo, and with kInvalid if the path is not a regular
/// file or is a symbolic link.
[[nodiscard]] Result<std::vector<BadNode>> read_bad_nodes(const std::filesystem::path& file,
                                                          std::chrono::sys_seconds now);

}  // namespace dlrun
