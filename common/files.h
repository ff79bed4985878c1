#pragma once
// Reads files, writes files atomically, creates private directories, and owns file descriptors.

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/result.h"

namespace dlrun {

/// Owns a file descriptor and closes it.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    reset(std::exchange(other.fd_, -1));
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

/// Returns the whole file. Fails with kNotFound or kIo, and with kInvalid if the file is larger
/// than limit_bytes or not a regular file.
[[nodiscard]] Result<std::string> read_file(const std::filesystem::path& path,
                                            std::size_t limit_bytes);

/// Replaces a file atomically: writes and syncs a temporary file beside it, renames the temporary
/// file, and syncs the directory. Readers see the old content or the new content. If a step before
/// the last step fails, the old file is unchanged and the temporary file is removed. `mode` applies
/// to the new file. Fails with kIo.
[[nodiscard]] Result<> write_file_atomic(const std::filesystem::path& path,
                                         std::string_view content, mode_t mode = 0600);

/// Creates a file atomically. If several processes try, only one succeeds. Fails with kRefused if
/// the file exists, and with kIo. Readers may see an incomplete file on file systems that support
/// neither links nor exclusive renames.
[[nodiscard]] Result<> create_file_exclusive(const std::filesystem::path& path,
                                             std::string_view content, mode_t mode = 0600);

/// Creates the path and its missing parents with mode 0700. Leaves existing directories as they
/// are. Fails with kIo.
[[nodiscard]] Result<> make_private_directories(const std::filesystem::path& path);

/// Syncs a directory, so that files created or renamed in it survive a power loss. Does nothing if
/// this user may not read the directory, or if the file system cannot sync it. Fails with kIo.
[[nodiscard]] Result<> sync_directory(const std::filesystem::path& directory);

/// Returns the file name that the user probably meant instead of `missing`: the most similar name
/// in the same folder (nearest()). Ignores files for which `accepts` returns false, and reads at
/// most 10,000 entries of the folder. Returns nullopt if no name is similar enough, or if the
/// folder cannot be read.
[[nodiscard]] std::optional<std::string> similar_name_beside(
    const std::filesystem::path& missing,
    const std::function<bool(const std::filesystem::path&)>& accepts);

/// Writes all bytes, in several write(2) calls if needed. Retries on EINTR; fails with
/// kIo on other errors.
[[nodiscard]] Result<> write_all(int fd, std::string_view bytes);

/// Returns text such as "No space left on device (ENOSPC)".
[[nodiscard]] std::string errno_text(int error);

}  // namespace dlrun
