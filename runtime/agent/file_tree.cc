#include "runtime/agent/file_tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "common/files.h"
#include "common/sha256.h"
#include "common/text.h"
#include "common/units.h"
#include "common/untrusted_file.h"

namespace dlrun::agent {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepestFolder = 128;
constexpr std::size_t kPieceBytes = 1U << 20U;

FileStamp stamp_of_stat(const struct stat& info) {
  return {static_cast<std::int64_t>(info.st_size),
          static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec};
}

/// Returns the entry for a result of lstat(). A device, FIFO or socket has the kind kOther.
TreeEntry entry_of(std::string path, const struct stat& info) {
  TreeEntry entry{.path = std::move(path), .stamp = stamp_of_stat(info)};
  entry.kind = S_ISDIR(info.st_mode)   ? TreeEntry::Kind::kFolder
               : S_ISREG(info.st_mode) ? TreeEntry::Kind::kFile
               : S_ISLNK(info.st_mode) ? TreeEntry::Kind::kLink
                                       : TreeEntry::Kind::kOther;
  entry.mode = info.st_mode & 0777U;
  return entry;
}

bool has_vanished(int error) {
  return error == ENOENT || error == ENOTDIR;
}

/// Adds everything below the folder `relative` of top.
Result<> add_folder(const fs::path& top, const std::string& relative, int depth,
                    UnreadableEntry unreadable, FileTree& tree) {
  const auto skip_or_fail = [&](const fs::path& path, int number) -> Result<> {
    auto problem = fmt::format("{}: {}", printable(path.string()), errno_text(number));
    if (unreadable == UnreadableEntry::kFail) return fail(Errc::kIo, "{}", problem);
    tree.problems.push_back(std::move(problem));
    return {};
  };
  if (depth > kDeepestFolder)
    return fail(Errc::kInvalid, "{}: is more than {} folders below {}",
                printable((top / relative).string()), kDeepestFolder, printable(top.string()));
  std::error_code error;
  const auto folder = relative.empty() ? top : top / relative;
  fs::directory_iterator at(folder, error);
  if (error && has_vanished(error.value())) return {};
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    const auto name = at->path().filename().string();
    struct stat info {};
    if (::lstat(at->path().c_str(), &info) != 0) {
      const int number = errno;
      if (!has_vanished(number)) DLRUN_TRY(skip_or_fail(at->path(), number));
      continue;
    }
    auto entry = entry_of(relative.empty() ? name : relative + "/" + name, info);
    if (entry.kind == TreeEntry::Kind::kLink) {
      const auto target = fs::read_symlink(at->path(), error);
      if (error) {
        const int number = std::exchange(error, {}).value();
        // EINVAL: something else has replaced the link.
        if (!has_vanished(number) && number != EINVAL) DLRUN_TRY(skip_or_fail(at->path(), number));
        continue;
      }
      entry.link = target.string();
    }
    const bool is_folder = entry.kind == TreeEntry::Kind::kFolder;
    if (entry.kind == TreeEntry::Kind::kFile) {
      ++tree.file_count;
      tree.bytes += entry.stamp.bytes;
    }
    const auto path = entry.path;
    tree.entries.push_back(std::move(entry));
    if (is_folder) DLRUN_TRY(add_folder(top, path, depth + 1, unreadable, tree));
  }
  if (error && !has_vanished(error.value())) return skip_or_fail(folder, error.value());
  return {};
}

/// Returns the error of a failed write. If the disk is full (ENOSPC), adds the free space of the
/// file system. For an exceeded quota (EDQUOT) this number would say nothing.
tl::unexpected<Error> write_failure(const fs::path& target, int error) {
  if (error == ENOSPC)
    return fail(Errc::kIo, "{}: {}; {} are free there", printable(target.string()),
                errno_text(error),
                bytes_text(static_cast<double>(free_bytes(target.parent_path()))));
  return fail(Errc::kIo, "{}: {}", printable(target.string()), errno_text(error));
}

/// Returns the mode of a copy, which only its owner can write: the copy may be in /tmp.
mode_t safe_mode(const TreeEntry& entry) {
  return (entry.mode | 0200U) & 0755U;
}

/// Returns the times for futimens(): the access time stays.
std::array<timespec, 2> times_of(const TreeEntry& entry) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const auto rest = (entry.stamp.mtime_ns % kSecond + kSecond) % kSecond;  // also before 1970
  return {timespec{.tv_sec = 0, .tv_nsec = UTIME_OMIT},
          timespec{.tv_sec = static_cast<time_t>((entry.stamp.mtime_ns - rest) / kSecond),
                   .tv_nsec = static_cast<long>(rest)}};
}

/// Returns the error of a file that changed while it was copied.
tl::unexpected<Error> change_error(const fs::path& source) {
  return fail(Errc::kRefused, "{}: the file changed while it was copied",
              printable(source.string()));
}

/// Copies the bytes of an open file, and checks that the file does not change meanwhile.
Result<> copy_bytes(int in, int out, const fs::path& source, const fs::path& target,
                    const TreeEntry& entry, const std::function<bool()>& is_late) {
  struct stat info {};
  if (::fstat(in, &info) != 0 || stamp_of_stat(info) != entry.stamp) return change_error(source);
  std::string piece(kPieceBytes, '\0');
  std::int64_t copied = 0;
  while (true) {
    if (is_late()) return fail(Errc::kInterrupted, "the time for the copy is over");
    const auto got = ::read(in, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return fail(Errc::kInvalid, "{}: {}", printable(source.string()), errno_text(errno));
    if (got == 0) break;
    for (ssize_t done = 0; done < got;) {
      const auto put = ::write(out, piece.data() + done, static_cast<std::size_t>(got - done));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return write_failure(target, errno);
      done += put;
    }
    copied += got;
    if (copied > entry.stamp.bytes) return change_error(source);
  }
  if (copied != entry.stamp.bytes || ::fstat(in, &info) != 0 || stamp_of_stat(info) != entry.stamp)
    return change_error(source);
  return {};
}

}  // namespace

Result<FileTree> list_tree(const fs::path& top, UnreadableEntry unreadable) {
  struct stat info {};
  if (::lstat(top.c_str(), &info) != 0)
    return fail(errno == ENOENT || errno == ENOTDIR ? Errc::kNotFound : Errc::kIo, "{}: {}",
                printable(top.string()), errno_text(errno));
  FileTree tree;
  if (S_ISDIR(info.st_mode)) {
    DLRUN_TRY(add_folder(top, "", 0, unreadable, tree));
  } else {
    tree.entries.push_back(entry_of("", info));
    tree.file_count = 1;
    tree.bytes = tree.entries.front().stamp.bytes;
  }
  std::sort(tree.entries.begin(), tree.entries.end(),
            [](const TreeEntry& a, const TreeEntry& b) { return a.path < b.path; });
  return tree;
}

std::string digest_of(const FileTree& tree) {
  Sha256 hash;
  for (const auto& entry : tree.entries) {
    const bool is_file = entry.kind == TreeEntry::Kind::kFile;
    hash.update(fmt::format("{} {} {} {}:{} {}:{}\n", static_cast<int>(entry.kind),
                            is_file ? entry.stamp.bytes : 0, is_file ? entry.stamp.mtime_ns : 0,
                            entry.path.size(), entry.path, entry.link.size(), entry.link));
  }
  return hash.final_hex();
}

bool link_stays_inside(std::string_view path, std::string_view target) {
  if (target.empty() || target.front() == '/') return false;
  auto depth = std::count(path.begin(), path.end(), '/');
  for (const auto part : split(target, '/')) {
    if (part.empty() || part == ".") continue;
    depth += part == ".." ? -1 : 1;
    if (depth < 0) return false;
  }
  return true;
}

Result<> copy_entry(const fs::path& source, const fs::path& target, const TreeEntry& entry,
                    bool syncs, const std::function<bool()>& is_late) {
  auto in = open_untrusted(source, Links::kRefuse);
  if (!in && in.error().code == Errc::kIo) return fail(Errc::kInvalid, "{}", in.error().message);
  if (!in) return tl::unexpected<Error>(std::move(in.error()));
  UniqueFd out(::open(target.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                      safe_mode(entry)));
  if (!out.is_open()) return write_failure(target, errno);
  auto copied = copy_bytes(in->get(), out.get(), source, target, entry, is_late);
  if (copied) {
    const auto times = times_of(entry);
    if (::futimens(out.get(), times.data()) != 0 || (syncs && ::fsync(out.get()) != 0))
      copied = write_failure(target, errno);
  }
  // A network file system may report a full disk or an exceeded quota only when the file is closed.
  if (const int fd = out.release(); ::close(fd) != 0 && copied)
    copied = write_failure(target, errno);
  if (!copied) ::unlink(target.c_str());
  return copied;
}

Result<> set_time_and_mode(const fs::path& path, const TreeEntry& entry) {
  const auto times = times_of(entry);
  if (::chmod(path.c_str(), safe_mode(entry)) != 0 ||
      ::utimensat(AT_FDCWD, path.c_str(), times.data(), AT_SYMLINK_NOFOLLOW) != 0)
    return write_failure(path, errno);
  return {};
}

std::int64_t free_bytes(const fs::path& folder) {
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) != 0) return 0;
  return static_cast<std::int64_t>(info.f_bavail) * static_cast<std::int64_t>(info.f_frsize);
}

Result<> check_space(const fs::path& folder, std::int64_t bytes) {
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) != 0)
    return fail(Errc::kIo, "{}: the free space is unknown: {}", printable(folder.string()),
                errno_text(errno));
  const auto left = free_bytes(folder);
  if (bytes <= left) return {};
  return fail(Errc::kIo, "{} are needed in {}, but only {} are free there",
              bytes_text(static_cast<double>(bytes)), printable(folder.string()),
              bytes_text(static_cast<double>(left)));
}

bool is_on_network(const fs::path& folder) {
  // From <linux/magic.h> and the sources of the file systems: NFS, Lustre, GPFS, BeeGFS, CephFS,
  // SMB, CIFS, AFS, 9p, PanFS and WekaFS.
  constexpr std::array<std::uint32_t, 11> kNetwork{0x6969,     0x0bd00bd0, 0x47504653, 0x19830326,
                                                   0x00c36400, 0xfe534d42, 0xff534d42, 0x5346414f,
                                                   0x01021997, 0xaad7aaea, 0x77656b61};
  struct statfs info {};
  if (::statfs(folder.c_str(), &info) != 0) return false;
  return std::find(kNetwork.begin(), kNetwork.end(), static_cast<std::uint32_t>(info.f_type)) !=
         kNetwork.end();
}

}  // namespace dlrun::agent
