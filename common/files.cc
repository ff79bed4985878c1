// Files are written under a temporary name in the same directory, synced, and then renamed or
// linked to their final name. On file systems that support neither links nor exclusive renames, a
// new file is written directly.

#include "common/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "common/directories.h"
#include "common/file_and_owner.h"
#include "common/text.h"

namespace dlrun {
namespace fs = std::filesystem;

void UniqueFd::reset(int fd) {
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
}

std::string errno_text(int error) {
  const char* name = strerrorname_np(error);
  return fmt::format("{} ({})",
                     strerrordesc_np(error) != nullptr ? strerrordesc_np(error) : "unknown error",
                     name != nullptr ? name : std::to_string(error));
}

Result<std::string> read_file(const fs::path& path, std::size_t limit_bytes) {
  DLRUN_TRY_ASSIGN(auto read, read_file_and_owner(path, limit_bytes, Links::kFollow));
  return std::move(read.text);
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

namespace {

/// Syncs an open directory. directory: its path, for the error message.
Result<> sync_opened(const UniqueFd& fd, const fs::path& directory) {
  // Some network file systems do not support fsync of a directory. On these file systems, a rename
  // is durable without fsync.
  if (!fd.is_open() || (fsync(fd.get()) != 0 && errno != EINVAL && errno != ENOTSUP)) {
    return fail(Errc::kIo, "{}: {}", printable(directory.string()), errno_text(errno));
  }
  return {};
}

}  // namespace

Result<> sync_directory(const fs::path& directory) {
  const UniqueFd fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.is_open() && errno == EACCES)
    return {};  // a directory that this user may write but not read cannot be synced
  return sync_opened(fd, directory);
}

namespace {

/// Writes and syncs a new file. shown_path: the path for error messages.
Result<> write_synced(const fs::path& path, std::string_view content, mode_t mode,
                      const fs::path& shown_path) {
  UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  if (!file.is_open()) {
    const int error = errno;
    return fail(error == EEXIST ? Errc::kRefused : Errc::kIo, "{}: {}",
                printable(shown_path.string()), errno_text(error));
  }
  auto written = write_all(file.get(), content);
  if (written && fsync(file.get()) != 0) written = fail(Errc::kIo, "{}", errno_text(errno));
  // On NFS, close() reports errors of earlier writes.
  if (close(file.release()) != 0 && written) written = fail(Errc::kIo, "{}", errno_text(errno));
  if (!written) {
    unlink(path.c_str());
    return within(printable(shown_path.string()), written.error());
  }
  return {};
}

}  // namespace

Result<> write_file_atomic(const fs::path& path, std::string_view content, mode_t mode) {
  const fs::path directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const fs::path temporary =
      directory / fmt::format(".{}.{}.tmp", path.filename().string(), random_hex(6));
  DLRUN_TRY(write_synced(temporary, content, mode, path));
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(temporary.c_str());
    return fail(Errc::kIo, "{}: {}", printable(path.string()), errno_text(error));
  }
  return sync_directory(directory);
}

namespace {

/// The result of name_exclusively().
enum class Naming { kDone, kExists, kUnsupported };

/// Gives a complete file its final name, by a link or by a rename, if no file has that name. The
/// temporary name may remain.
Naming name_exclusively(const fs::path& temporary, const fs::path& path) {
  if (link(temporary.c_str(), path.c_str()) == 0) return Naming::kDone;
  const int error = errno;
  struct stat status {};
  // An NFS client repeats a request whose reply was lost. The second request then fails with
  // EEXIST, because the first one has made the link.
  if (error == EEXIST && stat(temporary.c_str(), &status) == 0 && status.st_nlink == 2)
    return Naming::kDone;
  if (error == EEXIST) return Naming::kExists;
  if (renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0)
    return Naming::kDone;
  return errno == EEXIST ? Naming::kExists : Naming::kUnsupported;
}

}  // namespace

Result<> create_file_exclusive(const fs::path& path, std::string_view content, mode_t mode) {
  const fs::path directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
  // The directory is opened first: once the file has its name, `dlrun rm` may rename the directory
  // for a moment.
  const UniqueFd directory_fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const fs::path temporary =
      directory / fmt::format(".{}.{}.tmp", path.filename().string(), random_hex(6));
  DLRUN_TRY(write_synced(temporary, content, mode, path));
  const auto named = name_exclusively(temporary, path);
  unlink(temporary.c_str());
  if (named == Naming::kExists)
    return fail(Errc::kRefused, "{}: {}", printable(path.string()), errno_text(EEXIST));
  if (named == Naming::kUnsupported) DLRUN_TRY(write_synced(path, content, mode, path));
  return directory_fd.is_open() ? sync_opened(directory_fd, directory) : sync_directory(directory);
}

Result<> make_directories(const fs::path& path, mode_t mode) {
  struct stat existing {};
  if (stat(path.c_str(), &existing) == 0 && S_ISDIR(existing.st_mode)) return {};
  fs::path built;
  for (const fs::path& part : path) {
    const fs::path parent = built.empty() ? fs::path(".") : built;
    built /= part;
    if (mkdir(built.c_str(), mode) == 0) {
      DLRUN_TRY(sync_directory(parent));  // otherwise a power loss could remove the new directory
      continue;
    }
    const int error = errno;
    // For a directory that exists, mkdir() may also fail with EACCES or EROFS.
    struct stat status {};
    if (stat(built.c_str(), &status) != 0)
      return fail(Errc::kIo, "{}: {}", printable(built.string()), errno_text(error));
    if (!S_ISDIR(status.st_mode))
      return fail(Errc::kIo, "{}: exists and is not a directory", printable(built.string()));
  }
  return {};
}

std::optional<std::string> similar_name_beside(
    const fs::path& missing, const std::function<bool(const fs::path&)>& accepts) {
  std::error_code error;
  std::vector<std::string> names;
  fs::directory_iterator entry(missing.parent_path(), error);
  constexpr std::size_t kMostEntries = 10'000;
  for (std::size_t i = 0; i < kMostEntries && !error && entry != end(entry);
       ++i, entry.increment(error)) {
    if (accepts(entry->path())) names.push_back(entry->path().filename().string());
  }
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const auto similar = nearest(missing.filename().string(), candidates);
  return similar ? std::optional<std::string>(*similar) : std::nullopt;
}

Result<> make_private_directories(const fs::path& path) {
  return make_directories(path, 0700);
}

}  // namespace dlrun
