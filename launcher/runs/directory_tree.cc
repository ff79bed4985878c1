// Another process may change the tree during the walk. A directory that became a link is not
// entered, because O_NOFOLLOW refuses it, and then the link itself is deleted.

#include "launcher/runs/directory_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <map>
#include <memory>

#include "common/files.h"
#include "common/text.h"

namespace dlrun {
namespace {

/// The number of levels that a walk enters. Each level keeps a directory open, and a process may
/// open only about a thousand files.
constexpr int kDeepest = 64;
constexpr const char* kIsMounted = "it is a mount point";
constexpr std::uint64_t kBlockBytes = 512;  // the unit of st_blocks on Linux

UniqueFd open_below(int directory, const std::string& name) {
  return UniqueFd(
      ::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

/// Returns true if another file system, or another part of the same one, is mounted at this name.
bool is_mount_point(int directory, const std::string& name) {
  struct statx info {};
  return ::statx(directory, name.c_str(), AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_BASIC_STATS,
                 &info) == 0 &&
         (info.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
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
  explicit TreeMeter(dev_t device) : device_(device) {}

  void add(int directory, const std::string& name, bool is_checkpoint, int depth) {
    struct stat info {};
    if (::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return;
    if (!S_ISDIR(info.st_mode)) {
      add_file(info, is_checkpoint);
      return;
    }
    const UniqueFd below = info.st_dev == device_ && !is_mount_point(directory, name)
                               ? open_below(directory, name)
                               : UniqueFd();
    if (!below.is_open() || depth >= kDeepest) {
      ++size_.unread;
      return;
    }
    const bool is_below_checkpoint = is_checkpoint || name == kCheckpointFolder;
    add_bytes(size_, info, is_below_checkpoint);
    add_all(below.get(), is_below_checkpoint, depth + 1);
  }
  void add_all(int directory, bool is_checkpoint, int depth) {
    const auto names = names_in(directory);
    if (!names) {
      ++size_.unread;
      return;
    }
    for (const std::string& name : *names) add(directory, name, is_checkpoint, depth);
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
  TreeSize size_;
  /// By inode, for files with several links: the number of links seen so far.
  std::map<ino_t, nlink_t> links_;
};

/// Deletes the tree below one directory, on one device.
class TreeDeleter {
 public:
  TreeDeleter(int top, dev_t device) : top_(top), device_(device) {}

  void clear_top(const std::string& last) {
    // Each pass deletes kDeepest levels, and moves what is below them to the top for the next pass.
    constexpr int kMostPasses = 100'000;
    for (int pass = 0; pass < kMostPasses; ++pass) {
      has_moved_ = false;
      clear(top_, "", last, false, 0);
      if (!has_moved_) break;
    }
    if (!last.empty() && effect_.left == 0) remove(top_, last, "", false, 0);
  }
  /// Deletes one entry of the top directory.
  void remove_one(const std::string& name) {
    struct stat info {};
    const UniqueFd below = open_below(top_, name);
    if (!below.is_open() || ::fstat(below.get(), &info) != 0 || info.st_dev != device_ ||
        is_mount_point(top_, name)) {
      remove(top_, name, "", false, 0);
      return;
    }
    TreeDeleter inner(below.get(), device_);
    inner.clear_top("");
    effect_ += inner.effect_;
    if (inner.effect_.left == 0 && unlink(top_, name, name, AT_REMOVEDIR))
      add_bytes(effect_.freed, info, false);
  }
  [[nodiscard]] const TreeDeletion& effect() const { return effect_; }

 private:
  void clear(int directory, const std::string& where, const std::string& skipped,
             bool is_checkpoint, int depth) {
    const auto names = names_in(directory);
    if (!names) {
      add_left(where, names.error().message);
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
      if (errno != ENOENT) add_left(path, errno_text(errno));
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
      add_left(path, kIsMounted);
      return;
    }
    if (depth >= kDeepest) {
      move_to_top(directory, name, path);
      return;
    }
    const UniqueFd below = open_below(directory, name);
    struct stat opened {};
    if (!below.is_open()) {
      const int error = errno;
      // The directory became a link or a file after fstatat() had examined it.
      if (error == ELOOP || error == ENOTDIR) {
        static_cast<void>(unlink(directory, name, path, 0));
      } else if (error != ENOENT) {
        add_left(path, errno_text(error));
      }
      return;
    }
    if (::fstat(below.get(), &opened) != 0 || opened.st_dev != device_) {
      add_left(path, kIsMounted);
      return;
    }
    const auto left = effect_.left;
    const bool is_below_checkpoint = is_checkpoint || name == kCheckpointFolder;
    clear(below.get(), path, "", is_below_checkpoint, depth + 1);
    // A directory that still holds an entry cannot be deleted. add_left() has recorded the reason
    // for that entry.
    if (effect_.left == left && unlink(directory, name, path, AT_REMOVEDIR))
      add_bytes(effect_.freed, opened, is_below_checkpoint);
  }

  /// Moves a directory that is more than kDeepest levels below the top up into the top itself.
  void move_to_top(int directory, const std::string& name, const std::string& path) {
    const std::string there = fmt::format(".deep-{}", random_hex(8));
    if (::renameat2(directory, name.c_str(), top_, there.c_str(), RENAME_NOREPLACE) == 0 ||
        (errno == EINVAL && ::renameat(directory, name.c_str(), top_, there.c_str()) == 0)) {
      has_moved_ = true;
    } else if (errno != ENOENT) {
      add_left(path, errno_text(errno));
    }
  }

  /// Removes a name. Returns true if this call removed it. flags: AT_REMOVEDIR for a directory.
  bool unlink(int directory, const std::string& name, const std::string& path, int flags) {
    if (::unlinkat(directory, name.c_str(), flags) == 0) return true;
    if (errno == EACCES && make_writable(directory) &&
        ::unlinkat(directory, name.c_str(), flags) == 0)
      return true;
    const int error = errno;
    if (error != ENOENT) add_left(path, errno_text(error));
    return false;
  }

  /// Gives the caller all rights to a directory of the caller. Returns false if that is impossible
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

  void add_left(const std::string& path, const std::string& why) {
    if (++effect_.left == 1)
      effect_.why_left = fmt::format("{}: {}", path.empty() ? "." : path, why);
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
  left += other.left;
  if (why_left.empty()) why_left = other.why_left;
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

TreeSize measure_tree(int directory) {
  struct stat info {};
  if (::fstat(directory, &info) != 0) return {};
  TreeMeter meter(info.st_dev);
  meter.add_all(directory, false, 0);
  return meter.size();
}

TreeSize measure_entry(int directory, const std::string& name) {
  struct stat info {};
  if (::fstat(directory, &info) != 0) return {};
  TreeMeter meter(info.st_dev);
  meter.add(directory, name, false, 0);
  return meter.size();
}

TreeDeletion delete_tree(int directory, const std::string& last) {
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
  deleter.remove_one(name);
  return deleter.effect();
}

}  // namespace dlrun
