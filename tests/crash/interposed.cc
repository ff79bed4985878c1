// Replaces the functions of the C library by which dlrun changes or syncs files. Each of them
// reports its successful calls to the LazyDisk (lazy_disk.h) that covers the path. All except fsync
// and fdatasync also call the real function, unless the LazyDisk skips a rename or a link. Also
// replaces read(), which fails for the file of an UnreadableFile (lazy_disk.h). The linker binds
// the calls of the program and of the C++ library to these functions.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <string_view>

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>

#include "tests/crash/lazy_disk.h"

namespace {

using dlrun::crash::LazyDisk;

template <typename Function>
Function real_function(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}
#define DLRUN_REAL(name) real_function<decltype(&::name)>(#name)

/// Returns the target of /proc/self/fd/FD: the file's current path. For a file without a name the
/// target is another text, which no LazyDisk covers. Returns "" if fd is not open.
std::string path_of(int fd) {
  std::array<char, 4096> path{};
  const ssize_t length =
      ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path.data(), path.size());
  return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : std::string();
}

std::string path_at(int folder, const char* path) {
  return *path == '/' || folder == AT_FDCWD ? std::string(path) : path_of(folder) + "/" + path;
}

/// The LazyDisk that covers `path`, locked while this object exists; false if there is none.
class CoveringDisk {
 public:
  explicit CoveringDisk(const std::string& path) {
    if (LazyDisk::current() == nullptr) return;
    LazyDisk::lock();
    LazyDisk* const disk = LazyDisk::current();
    disk_ = disk != nullptr && disk->covers(path) ? disk : nullptr;
    if (disk_ == nullptr) LazyDisk::unlock();
  }
  ~CoveringDisk() {
    if (disk_ != nullptr) LazyDisk::unlock();
  }
  CoveringDisk(const CoveringDisk&) = delete;
  CoveringDisk& operator=(const CoveringDisk&) = delete;
  explicit operator bool() const { return disk_ != nullptr; }
  LazyDisk* operator->() const { return disk_; }

 private:
  LazyDisk* disk_ = nullptr;
};

int open_at(int folder, const char* path, int flags, mode_t mode) {
  const CoveringDisk disk(path_at(folder, path));
  const int fd = DLRUN_REAL(openat)(folder, path, flags, mode);
  if (fd >= 0 && disk && (flags & (O_CREAT | O_TRUNC)) != 0)
    disk->opened(path_at(folder, path), (flags & O_TRUNC) != 0);
  return fd;
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
}

/// Reports a sync to the LazyDisk and not to the kernel, because the files of these tests need not
/// survive a real crash.
int record_sync(const char* name, int fd) {
  if (::fcntl(fd, F_GETFD) < 0) return -1;
  const std::string path = LazyDisk::current() != nullptr ? path_of(fd) : std::string();
  const CoveringDisk disk(path);
  if (disk && disk->record_ordering_call(name, path)) disk->synced(path);
  return 0;
}

template <typename Function>
int remove_with(const std::string& path, Function&& function) {
  const CoveringDisk disk(path);
  const int result = function();
  if (result == 0 && disk) disk->removed(path);
  return result;
}

template <typename Function>
int rename_with(const std::string& from, const std::string& to, Function&& function) {
  const CoveringDisk disk(to);
  if (disk && !disk->record_ordering_call("rename", to)) return 0;
  const int result = function();
  if (result == 0 && disk) disk->renamed(from, to);
  return result;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_at(AT_FDCWD, path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_at(AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_at(folder, path, flags, mode);
}

ssize_t write(int fd, const void* bytes, size_t count) {
  const std::string path = LazyDisk::current() != nullptr ? path_of(fd) : std::string();
  const CoveringDisk disk(path);
  const ssize_t written = DLRUN_REAL(write)(fd, bytes, count);
  if (written > 0 && disk) {
    const auto length = static_cast<std::size_t>(written);
    const auto end = static_cast<std::size_t>(::lseek(fd, 0, SEEK_CUR));
    disk->wrote(path, end - length, {static_cast<const char*>(bytes), length});
  }
  return written;
}

ssize_t read(int fd, void* bytes, size_t count) {
  const std::string& unreadable = dlrun::crash::UnreadableFile::path();
  if (!unreadable.empty() && path_of(fd) == unreadable) {
    errno = EIO;
    return -1;
  }
  return DLRUN_REAL(read)(fd, bytes, count);
}

int ftruncate(int fd, off_t length) noexcept {
  const std::string path = LazyDisk::current() != nullptr ? path_of(fd) : std::string();
  const CoveringDisk disk(path);
  const int result = DLRUN_REAL(ftruncate)(fd, length);
  if (result == 0 && disk) disk->truncated(path, static_cast<std::size_t>(length));
  return result;
}

int fsync(int fd) {
  return record_sync("fsync", fd);
}

int fdatasync(int fd) {
  return record_sync("fdatasync", fd);
}

int mkdir(const char* path, mode_t mode) noexcept {
  const CoveringDisk disk{std::string(path)};
  const int result = DLRUN_REAL(mkdir)(path, mode);
  if (result == 0 && disk) disk->made_folder(path);
  return result;
}

int rename(const char* from, const char* to) noexcept {
  return rename_with(from, to, [&] { return DLRUN_REAL(rename)(from, to); });
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned flags) noexcept {
  return rename_with(path_at(from_folder, from), path_at(to_folder, to), [&] {
    return DLRUN_REAL(renameat2)(from_folder, from, to_folder, to, flags);
  });
}

int link(const char* from, const char* to) noexcept {
  const CoveringDisk disk{std::string(to)};
  // If the name exists, the link fails and orders nothing.
  struct stat unused {};
  if (disk && ::lstat(to, &unused) != 0 && !disk->record_ordering_call("link", to)) return 0;
  const int result = DLRUN_REAL(link)(from, to);
  if (result == 0 && disk) disk->linked(from, to);
  return result;
}

int unlink(const char* path) noexcept {
  return remove_with(path, [&] { return DLRUN_REAL(unlink)(path); });
}

int rmdir(const char* path) noexcept {
  return remove_with(path, [&] { return DLRUN_REAL(rmdir)(path); });
}

int remove(const char* path) noexcept {
  return remove_with(path, [&] { return DLRUN_REAL(remove)(path); });
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  return remove_with(path_at(folder, path),
                     [&] { return DLRUN_REAL(unlinkat)(folder, path, flags); });
}

}  // extern "C"
