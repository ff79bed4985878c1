#pragma once
// code.snapshot: a run's own copy of the source tree, so that later edits do not change a job that
// waits in the queue.

#include <filesystem>

#include "common/env.h"
#include "common/result.h"

namespace dlrun {

/// A copy of the source tree.
struct Snapshot {
  /// The folder in the copy that corresponds to source_dir: the job starts there.
  std::filesystem::path folder;
  std::size_t file_count = 0;  ///< number of copied files and links
  std::size_t bytes = 0;       ///< size of the copied files
};

/// Copies the tree around source_dir to RUN/code. In a git repository, copies the tracked files as
/// they are, and the untracked files that git does not ignore. Otherwise copies everything below
/// source_dir. Leaves out .git, submodules, runs_dir, and .dlrun (the environments that dlrun
/// builds). Keeps symbolic links and modes. Fails with kInvalid above 20,000 files, and above 256
/// MiB (the message shows the largest file), and with kIo if a file cannot be copied. Removes a
/// copy that failed.
[[nodiscard]] Result<Snapshot> take_snapshot(const std::filesystem::path& source_dir,
                                             const std::filesystem::path& run,
                                             const std::filesystem::path& runs_dir, const Env& env);

}  // namespace dlrun
