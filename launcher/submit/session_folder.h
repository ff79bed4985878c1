#pragma once
// A temporary folder with the script of a session (`dlrun interactive`, `dlrun attach`, or ssh into
// a job).

#include <filesystem>
#include <string>
#include <utility>

#include "common/files.h"
#include "common/result.h"

namespace dlrun {

/// A private folder of one session. It is in the runs folder, because the nodes can read that
/// folder. The destructor removes the private folder with its content.
class SessionFolder {
 public:
  /// Creates the folder in <runs>/.interactive-UID/. Removes folders that killed sessions left
  /// behind. Fails with kInvalid if another user owns .interactive-UID or can write to it: that
  /// other user could replace the script, which runs with the rights of the user who called dlrun.
  /// Fails with kIo if no folder can be made.
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
  UniqueFd fd_;  ///< the locked folder; child processes inherit the descriptor and the lock
};

/// Returns the script with a first command that creates the file `begun` in the folder. Slurm's
/// commands exit with 1 for every failure; the file shows whether the script itself ended with 1 or
/// never started.
[[nodiscard]] std::string with_begun_mark(const std::string& script, const SessionFolder& folder);
/// Returns true if the script has created the file `begun`.
[[nodiscard]] bool has_begun(const SessionFolder& folder);

}  // namespace dlrun
