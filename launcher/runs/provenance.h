#pragma once
// Where a run came from: who, where, which dlrun, and the code as it was: git's commit and the
// uncommitted diff.

#include <filesystem>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "common/env.h"
#include "common/result.h"

namespace dlrun {

struct GitState {
  std::string root, commit,
      patch;         ///< patch: tracked files against commit, binary-safe; empty when clean
  std::string note;  ///< why something is missing: no git, no commit yet, too slow, too large
};

/// Collects beside the submission: git runs in a thread of its own while sbatch does its work.
/// Nothing is started where no folder above is a git repository. Bounded: 5 s and 16 MiB for each
/// of git's two calls.
class Provenance {
 public:
  Provenance(std::filesystem::path source_dir, Env env, std::vector<std::string> argv,
             std::string tools_hash);

  /// The run that this one repeats.
  void set_repeats(std::string run) { repeats_ = std::move(run); }

  /// Where relative paths of the run's script start, where that is not this process's directory.
  void set_directory(std::filesystem::path directory) { directory_ = std::move(directory); }

  /// The container's, as the spec names it. Of a file its size and time are written, and the digest
  /// that `container import` has named it by; what a registry's name means is known to the node
  /// that fetches it alone.
  void set_image(std::string image) { image_ = std::move(image); }

  /// Waits for git and writes provenance.json and, for a dirty tree, tree.patch.
  [[nodiscard]] Result<> write(const std::filesystem::path& run);

 private:
  std::filesystem::path source_dir_, directory_;
  std::vector<std::string> argv_;
  std::string tools_hash_, repeats_, image_;
  std::future<GitState> git_;
};

}  // namespace dlrun
