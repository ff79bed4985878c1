#pragma once
// Where the script of a shell on a node lies while the shell lives.

#include <filesystem>
#include <string>
#include <utility>

#include "common/files.h"
#include "common/result.h"

namespace dlrun {

/// A private folder that the nodes can read; gone with what is in it when this goes.
class SessionFolder {
 public:
  /// Removes what sessions left that were killed.
  static Result<SessionFolder> make(const std::filesystem::path& runs_dir);
  SessionFolder(SessionFolder&& other) noexcept
      : path_(std::exchange(other.path_, {})), fd_(std::move(other.fd_)) {}
  SessionFolder& operator=(SessionFolder&&) = delete;
  ~SessionFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  SessionFolder(std::filesystem::path path, UniqueFd fd)
      : path_(std::move(path)), fd_(std::move(fd)) {}
  std::filesystem::path path_;
  UniqueFd fd_;  ///< of the folder, locked: by us and by the programs that we start, as long as one
                 ///< of them lives
};

/// The session's script with a first line that leaves `begun` in the folder: Slurm's commands end
/// with 1 for every reason, and the mark tells a command that ended with 1 from one that never
/// began.
[[nodiscard]] std::string with_begun_mark(const std::string& script, const SessionFolder& folder);
[[nodiscard]] bool has_begun(const SessionFolder& folder);

}  // namespace dlrun
