// Another process may change the tree during the walk. A directory that became a link is not
// entered, because O_NOFOLLOW refuses it, and then the link itself is deleted.

#include "launcher/runs/directory_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <map>
#include <memory>

#include <limits.h>

#include "common/files.h"
#include "common/text.h"

namespace dlrun {
namespace {

/// The number of levels that a walk enters. Each level keeps a directory open, and a process may
/// open only about a thousand files.
constexpr int kMostLevels = 64;
constexpr const char* kIsMounted = "it is a mount point";
constexpr std::uint64_t kBlockBytes = 512;  // the unit of st_blocks on Linux

/// Returns the path of an open directory; empty if /proc cannot tell it.
std::string path_of(int directory) {
  std::array<char, 4 * PATH_MAX> path{};
  const ssize_t size =
      ::readlink(fmt::format("/proc/self/fd/{}", directory).c_str(), path.data(), path.size());
  return size <= 0 || path.front() != '/'
             ? std::string()
             : std::string(path.data(), static_cast<std::size_t>(size));
}

/// Replaces the escapes of mountinfo, such as \040 for a space.
std::string without_octal_escapes(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digits = text.substr(i).starts_with('\\') ? text.substr(i + 1, 3) : "";
    if (digits.size() == 3 && digits.find_first_not_of("01234567") == std::string_view::npos) {
      plain += static_cast<char>((digits[0] - '0') * 64 + (digits[1] - '0') * 8 + digits[2] - '0');
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

/// Returns true if /proc/self/mountinfo has a mount at this name, or if that file cannot be read.
/// Used on systems on which statx() does not report mount points.
bool is_in_mountinfo(int directory, const std::string& name) {
  const std::string path = path_of(directory);
  const UniqueFd file(::open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC));
  if (path.empty() || !file.is_open()) return true;
  std::string text;
  std::array<char, 65536> buffer;
  ssize_t got = 0;
  while ((got = ::read(file.get(), buffer.data(), buffer.size())) > 0)
    text.append(buffer.data(), static_cast<std::size_t>(got));
  if (got < 0 || text.empty()) return true;
  const std::string wanted = (path == "/" ? "" : path) + "/" + name;
  for (const std::string_view line : split(text, '\n')) {
    const auto fields = split(line, ' ');
    constexpr std::size_t kMountPoint = 4;  // proc(5)
    if (fields.size() > kMountPoint && without_octal_escapes(fields[kMountPoint]) == wanted)
      return true;
  }
  return false;
}

std::uint64_t bytes_of(const struct stat& info) {
  return static_cast<std::uint64_t>(info.st_blocks) * kBlockBytes;
}

void add_bytes(TreeSize& size, const struct stat& info, bool is_checkpoint) {
  size.bytes += bytes_of(info);
  if (is_checkpoint) size.checkpoint_bytes += bytes_of(info);
}

/// Measures a tree on one device.
class TreeMeter {
 public:
  explicit TreeMeter(dev_t device, DirectoryVisitor visit = {})
      : device_(device), visit_(std::move(visit)) {}

  /// where: the path of the directory from the top; empty for the top.
  void add(int directory, const std::string& name, const std::string& where, bool is_checkpoint,
           int depth) {
    struct stat info {};
    if (::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return;
    if (!S_ISDIR(info.st_mode)) {
      add_file(info, is_checkpoint);
      return;
    }
    const UniqueFd below = info.st_dev == device_ && !is_mount_point(directory, name)
                               ? open_below(directory, name)
                               : UniqueFd();
    if (!below.is_open() || depth >= kMostLevels) {
      ++size_.unread;
      return;
    }
    const bool is_below_checkpoint = is_checkpoint || name == kCheckpointFolder;
    add_bytes(size_, info, is_below_checkpoint);
    add_all(below.get(), where.empty() ? name : where + "/" + name, is_below_checkpoint, depth + 1);
  }
  void add_all(int directory, const std::string& where, bool is_checkpoint, int depth) {
    const auto names = names_in(directory);
    if (!names) {
      ++size_.unread;
      return;
    }
    if (visit_ && depth > 0) visit_(where, directory, *names);
    for (const std::string& name : *names) add(directory, name, where, is_checkpoint, depth);
  }
  [[nodiscard]] const TreeSize& size() const { return size_; }

 private:
  void add_file(const struct stat& info, bool is_checkpoint) {
    ++size_.files;
    // The bytes of a file with several links are free only when its last link is deleted.
    if (info.st_nlink > 1 && ++links_[info.st_ino] < info.st_nlink) return;
    add_bytes(size_, info, is_checkpoint);
  }

  dev_t device_;
  DirectoryVisitor visit_;
  TreeSize size_;
  /// By inode, for files with several links: the number of links seen so far.
  std::map<ino_t, nlink_t> links_;
};

/// Deletes the tree below one directory, on one device.
class TreeDeleter {
 public:
  TreeDeleter(int top, dev_t device) : top_(top), device_(device) {}

  /// Deletes all entries of the top directory: the entry `last` (empty: none) after the others.
  void clear_top(const std::string& last) {
    // Each pass deletes kMostLevels levels, and moves what is below them to the top for the next
    // pass.
    constexpr int kMostPasses = 100'000;
    for (int pass = 0; pass < kMostPasses; ++pass) {
      has_moved_ = false;
      clear(top_, "", last, false, 0);
      if (!has_moved_) break;
    }
    if (!last.empty() && effect_.undeleted_count == 0) remove(top_, last, "", false, 0);
  }
  /// Deletes one entry of the top directory.
  void remove_top_entry(const std::string& name) {
    struct stat info {};
    UniqueFd below = open_below(top_, name);
    if (!below.is_open() && errno == EACCES && make_readable(top_, name))
      below = open_below(top_, name);
    if (!below.is_open() || ::fstat(below.get(), &info) != 0 || info.st_dev != device_ ||
        is_mount_point(top_, name)) {
      remove(top_, name, "", false, 0);
      return;
    }
    TreeDeleter inner(below.get(), device_);
    inner.clear_top("");
    effect_ += inner.effect_;
    if (inner.effect_.undeleted_count == 0 && unlink(top_, name, name, AT_REMOVEDIR))
      add_bytes(effect_.freed, info, false);
  }
  [[nodiscard]] const TreeDeletion& effect() const { return effect_; }

 private:
  void clear(int directory, const std::string& where, const std::string& skipped,
             bool is_checkpoint, int depth) {
    const auto names = names_in(directory);
    if (!names) {
      add_undeleted(where, names.error().message);
      return;
    }
    for (const std::string& name : *names) {
      if (name != skipped || depth > 0) remove(directory, name, where, is_checkpoint, depth);
    }
  }

  void remove(int directory, const std::string& name, const std::string& where, bool is_checkpoint,
              int depth) {
    struct stat info {};
    const std::string path = where.empty() ? name : where + "/" + name;
    if (::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno != ENOENT) add_undeleted(path, errno_text(errno));
      return;
    }
    if (S_ISDIR(info.st_mode)) {
      remove_directory(directory, name, path, info, is_checkpoint, depth);
    } else if (unlink(directory, name, path, 0)) {
      ++effect_.freed.files;
      if (info.st_nlink <= 1) add_bytes(effect_.freed, info, is_checkpoint);
    }
  }

  void remove_directory(int directory, const std::string& name, const std::string& path,
                        const struct stat& info, bool is_checkpoint, int depth) {
    if (info.st_dev != device_ || is_mount_point(directory, name)) {
      add_undeleted(path, kIsMounted);
      return;
    }
    if (depth >= kMostLevels) {
      move_to_top(directory, name, path);
      return;
    }
    UniqueFd below = open_below(directory, name);
    if (!below.is_open() && errno == EACCES && make_readable(directory, name))
      below = open_below(directory, name);
    struct stat opened {};
    if (!below.is_open()) {
      const int error = errno;
      // The directory became a link or a file after fstatat() had examined it.
      if (error == ELOOP || error == ENOTDIR) {
        static_cast<void>(unlink(directory, name, path, 0));
      } else if (error != ENOENT) {
        add_undeleted(path, errno_text(error));
      }
      return;
    }
    if (::fstat(below.get(), &opened) != 0 || opened.st_dev != device_) {
      add_undeleted(path, kIsMounted);
      return;
    }
    const auto undeleted_before = effect_.undeleted_count;
    const bool is_below_checkpoint = is_checkpoint || name == kCheckpointFolder;
    clear(below.get(), path, "", is_below_checkpoint, depth + 1);
    // A directory that still holds an entry cannot be deleted. add_undeleted() has recorded the
    // reason for that entry.
    if (effect_.undeleted_count == undeleted_before && unlink(directory, name, path, AT_REMOVEDIR))
      add_bytes(effect_.freed, opened, is_below_checkpoint);
  }

  /// Moves a directory that is more than kMostLevels levels below the top up into the top itself.
  void move_to_top(int directory, const std::string& name, const std::string& path) {
    const std::string there = fmt::format(".deep-{}", random_hex(8));
    if (::renameat2(directory, name.c_str(), top_, there.c_str(), RENAME_NOREPLACE) == 0 ||
        (errno == EINVAL && ::renameat(directory, name.c_str(), top_, there.c_str()) == 0)) {
      has_moved_ = true;
    } else if (errno != ENOENT) {
      add_undeleted(path, errno_text(errno));
    }
  }

  /// Removes a name. Returns true if this call removed it. flags: AT_REMOVEDIR for a directory.
  bool unlink(int directory, const std::string& name, const std::string& path, int flags) {
    if (::unlinkat(directory, name.c_str(), flags) == 0) return true;
    if (errno == EACCES && make_writable(directory) &&
        ::unlinkat(directory, name.c_str(), flags) == 0)
      return true;
    const int error = errno;
    if (error != ENOENT) add_undeleted(path, errno_text(error));
    return false;
  }

  /// Gives this user all rights to a directory of this user. Returns false if that is impossible
  /// or not needed. Leaves errno unchanged.
  static bool make_writable(int directory) {
    const int error = errno;
    struct stat info {};
    const bool is_changed = ::fstat(directory, &info) == 0 && info.st_uid == ::geteuid() &&
                            (info.st_mode & S_IRWXU) != S_IRWXU &&
                            ::fchmod(directory, (info.st_mode & 07777U) | S_IRWXU) == 0;
    errno = error;
    return is_changed;
  }

  /// Does what make_writable() does, for a directory in `directory` that cannot be opened.
  static bool make_readable(int directory, const std::string& name) {
    const int error = errno;
    const UniqueFd below(
        ::openat(directory, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat info {};
    // fchmod() does not accept a descriptor of O_PATH.
    const bool is_changed = below.is_open() && ::fstat(below.get(), &info) == 0 &&
                            info.st_uid == ::geteuid() && (info.st_mode & S_IRWXU) != S_IRWXU &&
                            ::chmod(fmt::format("/proc/self/fd/{}", below.get()).c_str(),
                                    (info.st_mode & 07777U) | S_IRWXU) == 0;
    errno = error;
    return is_changed;
  }

  void add_undeleted(const std::string& path, const std::string& why) {
    if (++effect_.undeleted_count == 1)
      effect_.first_undeleted = fmt::format("{}: {}", path.empty() ? "." : path, why);
  }

  int top_;
  dev_t device_;
  bool has_moved_ = false;
  TreeDeletion effect_;
};

}  // namespace

TreeSize& TreeSize::operator+=(const TreeSize& other) {
  files += other.files;
  bytes += other.bytes;
  checkpoint_bytes += other.checkpoint_bytes;
  unread += other.unread;
  return *this;
}

TreeDeletion& TreeDeletion::operator+=(const TreeDeletion& other) {
  freed += other.freed;
  undeleted_count += other.undeleted_count;
  if (first_undeleted.empty()) first_undeleted = other.first_undeleted;
  return *this;
}

Result<std::vector<std::string>> names_in(int directory) {
  struct CloseStream {
    void operator()(DIR* stream) const { ::closedir(stream); }
  };
  // Opens the directory again, because reading moves the position of the descriptor.
  UniqueFd again(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!again.is_open()) return fail(Errc::kIo, "{}", errno_text(errno));
  const std::unique_ptr<DIR, CloseStream> stream(::fdopendir(again.get()));
  if (stream == nullptr) return fail(Errc::kIo, "{}", errno_text(errno));
  static_cast<void>(again.release());  // closedir() closes it
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const struct dirent* entry = ::readdir(stream.get());
    if (entry == nullptr) break;
    const std::string_view name(entry->d_name);
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return fail(Errc::kIo, "{}", errno_text(errno));
  return names;
}

bool is_mount_point(int directory, const std::string& name) {
  struct statx info {};
  if (::statx(directory, name.c_str(), AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_BASIC_STATS,
              &info) != 0) {
    if (errno == ENOENT) return false;
  } else if ((info.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0) {
    return (info.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
  }
  return is_in_mountinfo(directory, name);
}

UniqueFd open_below(int directory, const std::string& name) {
  return UniqueFd(
      ::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

TreeSize measure_tree(int directory, const DirectoryVisitor& visit) {
  struct stat info {};
  if (::fstat(directory, &info) != 0) return {};
  TreeMeter meter(info.st_dev, visit);
  meter.add_all(directory, "", false, 0);
  return meter.size();
}

TreeSize measure_entry(int directory, const std::string& name) {
  struct stat info {};
  if (::fstat(directory, &info) != 0) return {};
  TreeMeter meter(info.st_dev);
  meter.add(directory, name, "", false, 0);
  return meter.size();
}

TreeDeletion delete_contents(int directory, const std::string& last) {
  struct stat info {};
  if (::fstat(directory, &info) != 0) return {{}, 1, errno_text(errno)};
  TreeDeleter deleter(directory, info.st_dev);
  deleter.clear_top(last);
  return deleter.effect();
}

TreeDeletion delete_entry(int directory, const std::string& name) {
  struct stat info {};
  if (::fstat(directory, &info) != 0) return {{}, 1, errno_text(errno)};
  TreeDeleter deleter(directory, info.st_dev);
  deleter.remove_top_entry(name);
  return deleter.effect();
}

}  // namespace dlrun
