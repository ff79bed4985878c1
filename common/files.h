#pragma once
// Files that are written whole or not at all, directories that are private, descriptors that close
// themselves.

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/result.h"

namespace dlrun {

/// Owns a file descriptor.
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

/// The whole file. Fails with kNotFound, kIo, or kInvalid when it is larger than limit_bytes or not
/// a regular file.
[[nodiscard]] Result<std::string> read_file(const std::filesystem::path& path,
                                            std::size_t limit_bytes);

/// Writes path whole: a temporary file beside it, fsync, rename, fsync of the folder. A reader sees
/// the old content or the new; after a failure the old file is untouched and the temporary is gone.
/// mode is the new file's.
[[nodiscard]] Result<> write_file_atomic(const std::filesystem::path& path,
                                         std::string_view content, mode_t mode = 0600);

/// Creates path whole or not at all; of several that try, one succeeds. Fails with kRefused when it
/// exists already.
[[nodiscard]] Result<> create_file_exclusive(const std::filesystem::path& path,
                                             std::string_view content, mode_t mode = 0600);

/// Creates path and the missing directories above it with mode 0700. An existing directory is left
/// as it is.
[[nodiscard]] Result<> make_private_directories(const std::filesystem::path& path);

/// What was renamed or made in it stays after a power loss.
[[nodiscard]] Result<> sync_directory(const std::filesystem::path& directory);

/// All of bytes, whatever write(2) takes at a time. Retries EINTR; fails with kIo otherwise.
[[nodiscard]] Result<> write_all(int fd, std::string_view bytes);

/// "No space left on device (ENOSPC)"
[[nodiscard]] std::string errno_text(int error);

}  // namespace dlrun
