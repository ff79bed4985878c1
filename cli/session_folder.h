#pragma once
// Where the script of a shell on a node lies while the shell lives.

#include <filesystem>
#include <utility>

#include "common/files.h"
#include "common/text.h"

namespace dlrun {

/// A private folder that the nodes can read; gone with what is in it when this goes.
class SessionFolder {
 public:
  static Result<SessionFolder> make(const std::filesystem::path& runs_dir) {
    const auto path = runs_dir / ".interactive" / random_hex(8);
    DLRUN_TRY(make_private_directories(path));
    return SessionFolder(path);
  }
  SessionFolder(SessionFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  SessionFolder& operator=(SessionFolder&&) = delete;
  ~SessionFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  explicit SessionFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

}  // namespace dlrun
