#include "common/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/text.h"

namespace dlrun {
namespace fs = std::filesystem;

void UniqueFd::reset(int fd) {
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
}

std::string errno_text(int error) {
  const char* name = strerrorname_np(error);
  return fmt::format("{} ({})", strerrordesc_np(error) != nullptr ? strerrordesc_np(error) : "unknown error",
                     name != nullptr ? name : std::to_string(error));
}

Result<std::string> read_file(const fs::path& path, std::size_t limit_bytes) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer. It has no effect on regular files.
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) {
    const int error = errno;
    return fail(error == ENOENT || error == ENOTDIR ? Errc::kNotFound : Errc::kIo, "{}: {}", path.string(),
                errno_text(error));
  }
  struct stat status {};
  if (fstat(file.get(), &status) != 0) return fail(Errc::kIo, "{}: {}", path.string(), errno_text(errno));
  if (!S_ISREG(status.st_mode)) return fail(Errc::kInvalid, "{}: not a regular file", path.string());
  std::string content;
  content.resize(std::min(static_cast<std::size_t>(status.st_size), limit_bytes) + 1);
  std::size_t size = 0;
  for (;;) {
    const ssize_t got = read(file.get(), content.data() + size, content.size() - size);
    if (got < 0) {
      if (errno == EINTR) continue;
      return fail(Errc::kIo, "{}: {}", path.string(), errno_text(errno));
    }
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
    if (size > limit_bytes) {
      return fail(Errc::kInvalid, "{}: larger than the limit of {} bytes", path.string(), limit_bytes);
    }
    if (size == content.size()) content.resize(content.size() * 2);  // it grew while being read
  }
  content.resize(size);
  return content;
}

Result<> write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return fail(Errc::kIo, "{}", errno_text(errno));
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Result<> sync_directory(const fs::path& directory) {
  const UniqueFd fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some network file systems refuse fsync of a folder; their rename is durable by their own rules.
  if (!fd.is_open() || (fsync(fd.get()) != 0 && errno != EINVAL && errno != ENOTSUP)) {
    return fail(Errc::kIo, "{}: {}", directory.string(), errno_text(errno));
  }
  return {};
}

namespace {

/// name: the file that a message is about.
Result<> write_synced(const fs::path& path, std::string_view content, mode_t mode, const fs::path& name) {
  UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  if (!file.is_open()) {
    const int error = errno;
    return fail(error == EEXIST ? Errc::kRefused : Errc::kIo, "{}: {}", name.string(), errno_text(error));
  }
  auto written = write_all(file.get(), content);
  if (written && fsync(file.get()) != 0) written = fail(Errc::kIo, "{}", errno_text(errno));
  // close() reports what NFS could not store.
  if (close(file.release()) != 0 && written) written = fail(Errc::kIo, "{}", errno_text(errno));
  if (!written) {
    unlink(path.c_str());
    return within(name.string(), written.error());
  }
  return {};
}

}  // namespace

Result<> write_file_atomic(const fs::path& path, std::string_view content, mode_t mode) {
  const fs::path directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const fs::path temporary = directory / fmt::format(".{}.{}.tmp", path.filename().string(), random_hex(6));
  DLRUN_TRY(write_synced(temporary, content, mode, path));
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(temporary.c_str());
    return fail(Errc::kIo, "{}: {}", path.string(), errno_text(error));
  }
  return sync_directory(directory);
}

Result<> create_file_exclusive(const fs::path& path, std::string_view content, mode_t mode) {
  DLRUN_TRY(write_synced(path, content, mode, path));
  return sync_directory(path.has_parent_path() ? path.parent_path() : fs::path("."));
}

Result<> make_private_directories(const fs::path& path) {
  fs::path built;
  for (const fs::path& part : path) {
    built /= part;
    if (mkdir(built.c_str(), 0700) == 0) continue;
    const int error = errno;
    // EACCES, EROFS: a parent may be unwritable and exist all the same.
    struct stat status {};
    if (stat(built.c_str(), &status) != 0) return fail(Errc::kIo, "{}: {}", built.string(), errno_text(error));
    if (!S_ISDIR(status.st_mode)) return fail(Errc::kIo, "{}: exists and is not a directory", built.string());
  }
  return {};
}

}  // namespace dlrun
