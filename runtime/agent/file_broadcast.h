#pragma once
// Sends large files to the nodes with sbcast before the ranks' agents stage them. sbcast reads a
// file once and passes it on from node to node in a tree. Without sbcast each node of the job reads
// the file from the shared file system.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "runtime/agent/copy_items.h"

namespace dlrun::agent {

/// Files are broadcast if the job has at least this number of nodes. DLRUN_SBCAST_NODES sets
/// another number; 0 means never. A job with one node broadcasts no files.
inline constexpr std::int64_t kLeastBroadcastNodes = 8;
/// Files smaller than this are not broadcast: starting sbcast takes longer than reading them.
inline constexpr std::int64_t kLeastBroadcastBytes = 64 << 20;

/// The beginning of a broadcast file's name. kBroadcastDigits random hex digits follow.
inline constexpr std::string_view kBroadcastPrefix = ".dlrun-sbcast-";
inline constexpr std::size_t kBroadcastDigits = 16;

/// One file to broadcast.
struct FileBroadcast {
  std::size_t item = 0;  ///< index of the item in `stage`
  std::string from;
  std::filesystem::path to;  ///< a new file in the folder NodePath::base of the item
  std::int64_t bytes = 0;
};

/// Returns the files that are worth a broadcast to this number of nodes; none without sbcast.
/// Leaves out folders, files smaller than kLeastBroadcastBytes, items for ranks in containers, and
/// items whose target is on a network file system. env: lead's environment. If the variable of an
/// item has another value on a node than for lead, the agent of that node does not find the
/// broadcast file and copies the source itself.
[[nodiscard]] std::vector<FileBroadcast> planned_file_broadcasts(
    const std::vector<StageItem>& items, const Env& env, std::int64_t nodes);

struct FileBroadcastResult {
  /// For each item of `stage`, the path of the broadcast copy on the nodes; empty if the item is
  /// not broadcast. After a problem the copy is missing or incomplete.
  std::vector<std::string> copies;
  std::vector<std::string> problems;  ///< a sentence for each file whose broadcast failed
};

/// Runs sbcast for each file, one after the other. item_count: the number of items of `stage`.
/// Blocks: for each file at most one minute, plus the time that its bytes need at 10 MiB/s.
[[nodiscard]] FileBroadcastResult broadcast_files(const std::vector<FileBroadcast>& files,
                                                  std::size_t item_count, const Env& env);

}  // namespace dlrun::agent
