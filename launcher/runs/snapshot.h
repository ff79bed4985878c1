#pragma once
// code.snapshot: a run's own copy of the source tree, so that editing on does not change a job that
// waits.

#include <filesystem>

#include "common/env.h"
#include "common/result.h"

namespace dlrun {

struct Snapshot {
  std::filesystem::path
      folder;  ///< in the copy, what source_dir is in the tree: where the job starts
  std::size_t files = 0;
  std::size_t bytes = 0;
};

/// Copies the tree around source_dir to RUN/code: of a git repository the tracked files as they are
/// and the untracked ones that git does not ignore; else all below source_dir. Left out: .git,
/// submodules, runs_dir and all below it. Links stay links; modes stay. Fails with kInvalid above
/// 20,000 files or 256 MiB, naming the largest file; a failed copy is removed.
[[nodiscard]] Result<Snapshot> take_snapshot(const std::filesystem::path& source_dir,
                                             const std::filesystem::path& run,
                                             const std::filesystem::path& runs_dir, const Env& env);

}  // namespace dlrun
