#pragma once
// Copies data to a node before its ranks' programs start (the spec's key `stage`). The place of an
// item is the path on the node at which the programs find the data (StageItem::to).
//
// Data are copied into a temporary folder beside their place and then renamed, so that a program
// never sees incomplete data. These names beside the place DIR belong to dlrun:
//   .DIR.dlrun-note   a hash of the names, sizes and times of the source, and one of the copy. If
//                     source and copy still have these hashes, a later attempt uses the copy.
//   .DIR.dlrun-lock   is locked while data are copied, and while a program uses them
//   .DIR.dlrun-turn   is locked by a process while it checks whether it must copy
//   .DIR.dlrun-part   the temporary copy
//   .DIR.dlrun-old    the older data, until the new data are in their place
//
// The place is below a folder of the node, such as $TMPDIR. Lead puts broadcast files into this
// folder, with the names .dlrun-sbcast-XXXXXXXXXXXXXXXX (file_broadcast.h). Below this folder,
// which may be /tmp, dlrun uses no folders and files of other users.

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "common/env.h"
#include "common/files.h"
#include "common/result.h"
#include "runtime/agent/copy_items.h"
#include "runtime/agent/copy_report.h"
#include "runtime/agent/file_tree.h"
#include "runtime/agent/leftovers.h"

namespace dlrun::agent {

/// The options of `dlrun-agent stage`.
struct StageOptions {
  std::vector<StageItem> items{};
  /// Number of nodes of the attempt. With several, a place on a shared file system is refused.
  int nnodes = 1;
  std::chrono::seconds leftover_age = kLeftoverAge;  ///< see remove_leftovers()
  /// Returns true if other nodes share the folder's file system. Tests replace it.
  std::function<bool(const std::filesystem::path&)> is_shared = is_on_network;
};

/// Stages all items, one after the other, and returns the report. Also removes files that killed
/// processes have left behind: temporary copies beside the places, and broadcast files in the
/// node's folders. Does not remove them on a file system that other nodes share: a process on
/// another node may still use them, and its lock may be unknown on this node.
///
/// Waits while another run stages into the same place. Returns after the first item that fails,
/// with the error in the report.
[[nodiscard]] CopyReport stage_data(const StageOptions& options, const Env& env);

/// Locks staged data against changes by other runs until the returned descriptor is closed. Fails
/// with
///  - kUnavailable while another run checks or copies the data,
///  - kRefused if another run has changed the data since stage_data() reported them,
///  - kRefused if the lock file is not a regular file of this user,
///  - kIo if the lock file cannot be opened.
[[nodiscard]] Result<UniqueFd> hold_staged(const StagedCopy& copy);

}  // namespace dlrun::agent
