#pragma once
// Measures and deletes the files below an open directory. No function here follows a symbolic link
// or uses a path: each name is looked up in the directory that holds it. Only open_below() enters
// mount points.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/files.h"
#include "common/result.h"

namespace dlrun {

/// The folder of a run in which the trainer saves checkpoints.
inline constexpr std::string_view kCheckpointFolder = "ckpt";

struct TreeSize {
  std::uint64_t files = 0;  ///< everything except directories
  /// The bytes on the disk that a deletion frees. A file with a hard link elsewhere frees none.
  std::uint64_t bytes = 0;
  std::uint64_t checkpoint_bytes = 0;  ///< the part of `bytes` below folders named `ckpt`
  std::uint64_t unread = 0;  ///< directories that were not read: unreadable, mounted or too deep

  TreeSize& operator+=(const TreeSize& other);
};

/// The effect of a deletion.
struct TreeDeletion {
  TreeSize freed;
  std::uint64_t undeleted_count = 0;  ///< number of entries that could not be deleted
  /// The first of these entries, and the reason: "a/b: Permission denied (EACCES)".
  std::string first_undeleted;

  TreeDeletion& operator+=(const TreeDeletion& other);
};

/// Returns the names in the directory, except "." and "..". Fails with kIo.
[[nodiscard]] Result<std::vector<std::string>> names_in(int directory);

/// Returns true if another file system, or another part of the same file system, is mounted at
/// this name in the directory. Also returns true if neither statx() nor /proc can exclude a mount.
[[nodiscard]] bool is_mount_point(int directory, const std::string& name);

/// Opens a directory in the directory. The descriptor is not open, and errno is set, if the name
/// does not exist, is no directory or cannot be read. Follows no link. Enters mount points.
[[nodiscard]] UniqueFd open_below(int directory, const std::string& name);

/// Receives a directory below the measured directory: its path from the measured directory, its
/// descriptor, and the names in it.
using DirectoryVisitor = std::function<void(const std::string& path, int directory,
                                            const std::vector<std::string>& names)>;

/// Returns the size of everything below the directory. Calls visit for each directory that it
/// reads, except the directory itself.
[[nodiscard]] TreeSize measure_tree(int directory, const DirectoryVisitor& visit = {});
/// Returns the size of one entry of the directory, with everything below it. Returns an empty size
/// if it does not exist.
[[nodiscard]] TreeSize measure_entry(int directory, const std::string& name);

/// Deletes everything below the directory. Deletes the file `last` in it (empty: none) after all
/// other entries, and keeps it if one of the others could not be deleted. Makes directories of
/// this user readable and writable if needed. Works for any depth.
[[nodiscard]] TreeDeletion delete_contents(int directory, const std::string& last = {});
/// Deletes one entry of the directory, with everything below it.
[[nodiscard]] TreeDeletion delete_entry(int directory, const std::string& name);

}  // namespace dlrun
