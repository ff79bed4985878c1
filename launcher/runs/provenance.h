#pragma once
// Records a run's origin: the user, the host, the version of dlrun, and the code as git's commit
// and uncommitted diff.

#include <filesystem>
#include <future>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/env.h"
#include "common/result.h"

namespace dlrun {

/// The state of the git repository around the source.
struct GitState {
  /// patch: the difference of tracked files to `commit`, including binary files; empty if there is
  /// none, or if `note` says that the difference is unknown.
  std::string root, commit, patch;
  std::string note;  ///< why something is missing: no git, no commit yet, too slow, too large
};

/// Returns the state of the repository around the folder. Starts git at most four times; each git
/// may take 5 s and print 16 MiB.
[[nodiscard]] GitState git_state_of(const std::filesystem::path& folder, const Env& env);
/// Returns the state as bytes, for a host that gets a copy of the code without .git.
[[nodiscard]] std::string git_state_bytes(const GitState& state);
/// Returns the state in the bytes of git_state_bytes(); nullopt for other bytes.
[[nodiscard]] std::optional<GitState> parse_git_state(std::string_view bytes);

/// Collects the data while the job is submitted: git runs in a separate thread. Starts git only if
/// source_dir is in a git repository.
class Provenance {
 public:
  /// argv: the command line of dlrun. tools_hash: ToolSet::hash. git_state_file: a file with the
  /// bytes of git_state_bytes(), which is read if source_dir is not in a git repository; empty:
  /// there is no such file.
  Provenance(std::filesystem::path source_dir, Env env, std::vector<std::string> argv,
             std::string tools_hash, const std::filesystem::path& git_state_file = {});

  /// Sets the run that this run repeats.
  void set_repeated_run(std::string run) { repeated_run_ = std::move(run); }

  /// Sets the folder for relative paths of the run's script, if it is not this process's current
  /// folder.
  void set_submit_directory(std::filesystem::path directory) {
    submit_directory_ = std::move(directory);
  }

  /// Sets the container's image, as it is in the spec. For a file, records its size and time; for a
  /// file that `container import` made, also the digest. The digest of an image in a registry is
  /// known only to the node that fetches the image.
  void set_image(std::string image) { image_ = std::move(image); }

  /// Waits for git and writes provenance.json and, if there are uncommitted changes, tree.patch.
  [[nodiscard]] Result<> write(const std::filesystem::path& run);

 private:
  std::filesystem::path source_dir_, submit_directory_;
  std::vector<std::string> argv_;
  std::string tools_hash_, repeated_run_, image_;
  std::future<GitState> git_;
  std::optional<GitState> git_state_;  ///< from the file, or after git has ended
};

}  // namespace dlrun
