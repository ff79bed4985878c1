#include "runtime/agent/output_copying.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "common/directories.h"
#include "common/files.h"
#include "common/sha256.h"
#include "common/text.h"
#include "runtime/agent/address.h"
#include "runtime/agent/file_tree.h"

namespace dlrun::agent {
namespace {

namespace fs = std::filesystem;
using Steady = std::chrono::steady_clock;

/// File systems keep times with different precision, so a copy may look older than its source by
/// less than this time.
constexpr std::int64_t kTimePrecisionNs = 1'000'000'000;
/// The name of a temporary copy begins with this number of hex digits, after a dot.
constexpr std::size_t kHashDigits = 16;
constexpr std::string_view kTemporarySuffix = ".dlrun-part";

std::int64_t nanoseconds_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Copies the files of one item.
class OutputCopier {
 public:
  OutputCopier(const CollectOptions& options, const OutputItem& item, fs::path from, fs::path to,
               CopyReport& report)
      : options_(options),
        item_(item),
        from_(std::move(from)),
        to_(std::move(to)),
        report_(report),
        until_(Steady::now() + item.limit) {}

  Result<> run() {
    DLRUN_TRY(check_owner());
    auto listed = list_tree(from_, UnreadableEntry::kSkip);
    if (!listed && listed.error().code == Errc::kNotFound) {
      if (options_.is_last)
        report_.problems.push_back(
            fmt::format("outputs: {} does not exist on the node", printable(from_.string())));
      return {};
    }
    if (!listed) return tl::unexpected<Error>(std::move(listed.error()));
    // A file that refers to others (such as `latest`) is often written after them, so files are
    // copied from the oldest to the newest.
    std::stable_sort(
        listed->entries.begin(), listed->entries.end(),
        [](const TreeEntry& a, const TreeEntry& b) { return a.stamp.mtime_ns < b.stamp.mtime_ns; });
    for (const auto& entry : listed->entries) {
      was_cut_ = was_cut_ || is_late();
      if (was_cut_) break;
      DLRUN_TRY(copy_if_changed(entry));
    }
    for (const auto& problem : listed->problems)
      report_.problems.push_back("outputs: a file or folder cannot be read and is not copied: " +
                                 problem);
    if (was_cut_)
      report_.problems.push_back(fmt::format(
          "outputs: the copy of {} to {} stopped after its limit of {} s; {}",
          printable(from_.string()), printable(to_.string()), item_.limit.count(),
          options_.is_last ? "the rest is not copied" : "the next copy takes the rest"));
    return {};
  }

 private:
  [[nodiscard]] bool is_late() const { return Steady::now() >= until_; }

  /// Fails if the source is a symbolic link or belongs to another user: all users can write to
  /// /tmp.
  Result<> check_owner() const {
    struct stat info {};
    if (::lstat(from_.c_str(), &info) != 0) return {};
    if (S_ISLNK(info.st_mode))
      return fail(Errc::kInvalid, "{} is a symbolic link", printable(from_.string()));
    if (info.st_uid != ::geteuid())
      return fail(Errc::kRefused, "{} belongs to another user", printable(from_.string()));
    return {};
  }

  /// Copies one entry, unless its copy is up to date. For a folder, makes only the folder itself.
  /// Fails only if no other file can be copied either.
  Result<> copy_if_changed(const TreeEntry& entry) {
    const auto target = entry.path.empty() ? to_ / from_.filename() : to_ / entry.path;
    if (entry.kind == TreeEntry::Kind::kFolder) return make_folder(target);
    if (entry.kind == TreeEntry::Kind::kOther) return {};
    DLRUN_TRY(make_folder(target.parent_path()));
    if (entry.kind == TreeEntry::Kind::kLink) return copy_link(entry, target);
    return copy_file(entry, target);
  }

  /// Makes a folder of the target, unless this object has made it already. During the last copy,
  /// also removes the temporary files that killed copies have left in the folder.
  Result<> make_folder(const fs::path& folder) {
    if (made_folders_.contains(folder)) return {};
    DLRUN_TRY(make_directories(folder, 0700));
    made_folders_.insert(folder);
    if (options_.is_last) remove_leftovers(folder, is_temporary_name, options_.leftover_age);
    return {};
  }

  /// Returns the temporary name of a copy. The name contains the host, because the agents of two
  /// attempts may copy at the same time for a short while, on different nodes. The hash keeps the
  /// name short.
  [[nodiscard]] fs::path temporary_name_of(const fs::path& target) const {
    return target.parent_path() /
           fmt::format(".{}.{}{}",
                       sha256_of_text(target.filename().string()).substr(0, kHashDigits), host_,
                       kTemporarySuffix);
  }

  /// Returns true for a name that temporary_name_of() could have returned, for any file and host.
  [[nodiscard]] static bool is_temporary_name(std::string_view name) {
    return name.size() > kHashDigits + kTemporarySuffix.size() + 2 && name.starts_with('.') &&
           are_hex_digits(name.substr(1, kHashDigits)) && name[kHashDigits + 1] == '.' &&
           name.ends_with(kTemporarySuffix);
  }

  /// Copies a link that stays inside the folder. The copy of any other link would lead nowhere. A
  /// file or folder at the target stays. A failure is only reported: a file system without links
  /// must not keep the files from being copied.
  Result<> copy_link(const TreeEntry& entry, const fs::path& target) {
    if (!link_stays_inside(entry.path, entry.link)) return {};
    std::error_code error;
    if (fs::read_symlink(target, error) == entry.link) return {};
    struct stat info {};
    if (::lstat(target.c_str(), &info) == 0 && !S_ISLNK(info.st_mode)) return {};
    const auto temporary = temporary_name_of(target);
    ::unlink(temporary.c_str());
    const bool is_made = ::symlink(entry.link.c_str(), temporary.c_str()) == 0;
    if (is_made && ::rename(temporary.c_str(), target.c_str()) == 0) {
      ++report_.file_count;
      return {};
    }
    const int link_errno = errno;
    if (is_made) ::unlink(temporary.c_str());
    report_.problems.push_back(fmt::format("outputs: the link {} is not copied: {}",
                                           printable(entry.path), errno_text(link_errno)));
    return {};
  }

  [[nodiscard]] bool may_be_incomplete(const TreeEntry& entry) const {
    constexpr std::int64_t kMillisecond = 1'000'000;
    return options_.incomplete_since &&
           entry.stamp.mtime_ns >= options_.incomplete_since->count() * kMillisecond;
  }

  Result<> copy_file(const TreeEntry& entry, fs::path target) {
    struct stat info {};
    const bool has_copy = ::lstat(target.c_str(), &info) == 0;
    if (has_copy && !S_ISREG(info.st_mode)) {
      report_.problems.push_back(
          fmt::format("outputs: {} is not a file and is not replaced", printable(target.string())));
      return {};
    }
    if (has_copy) {
      const std::int64_t source_is_newer_by_ns =
          entry.stamp.mtime_ns - static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 -
          info.st_mtim.tv_nsec;
      const bool is_same =
          info.st_size == entry.stamp.bytes && source_is_newer_by_ns < kTimePrecisionNs;
      const bool is_copy_newer = source_is_newer_by_ns <= -kTimePrecisionNs;
      if (is_same || is_copy_newer) return {};
    }
    if (!options_.is_last && entry.stamp.mtime_ns > nanoseconds_now() - least_age_ns()) return {};
    if (has_copy && may_be_incomplete(entry)) {
      report_.problems.push_back(fmt::format(
          "outputs: {} was written shortly before the program failed or was ended, and may be "
          "incomplete; it is copied as {}.unfinished, and the older copy stays",
          printable(entry.path), printable(target.filename().string())));
      target += ".unfinished";
    }
    return copy_atomically(entry, target);
  }

  [[nodiscard]] static std::int64_t least_age_ns() {
    return std::chrono::nanoseconds(kLeastFileAge).count();
  }

  Result<> copy_atomically(const TreeEntry& entry, const fs::path& target) {
    const auto temporary = temporary_name_of(target);
    ::unlink(temporary.c_str());  // a copy that was killed may have left it behind
    const auto source = entry.path.empty() ? from_ : from_ / entry.path;
    const auto copied =
        copy_entry(source, temporary, entry, /*syncs=*/true, [this] { return is_late(); });
    if (!copied) {
      const auto code = copied.error().code;
      // While the program runs, a file may change during its copy. The next copy takes it.
      const bool changed_meanwhile = !options_.is_last && code == Errc::kRefused;
      was_cut_ = was_cut_ || code == Errc::kInterrupted;
      if (changed_meanwhile || code == Errc::kNotFound || code == Errc::kInterrupted) return {};
      if (code == Errc::kIo) return copied;  // such as a full disk
      report_.problems.push_back("outputs: " + copied.error().message);
      return {};
    }
    if (::rename(temporary.c_str(), target.c_str()) != 0) {
      const int error = errno;
      ::unlink(temporary.c_str());
      return fail(Errc::kIo, "{}: {}", printable(target.string()), errno_text(error));
    }
    DLRUN_TRY(sync_directory(target.parent_path()));
    ++report_.file_count;
    report_.bytes += entry.stamp.bytes;
    return {};
  }

  const CollectOptions& options_;
  const OutputItem& item_;
  fs::path from_, to_;
  CopyReport& report_;
  Steady::time_point until_;
  std::string host_ = own_host();
  bool was_cut_ = false;             ///< the time limit has ended the copy
  std::set<fs::path> made_folders_;  ///< folders of the target that make_folder() has handled
};

}  // namespace

CopyReport collect_outputs(const CollectOptions& options, const Env& env) {
  CopyReport report;
  for (const auto& item : options.items) {
    const auto from = node_path(item.from, env);
    fs::path to = fs::path(item.to).is_absolute() ? fs::path(item.to) : options.run / item.to;
    if (options.node) to /= fmt::format("node-{}", *options.node);
    auto copied = from ? OutputCopier(options, item, from->path, to, report).run()
                       : Result<>(tl::unexpected<Error>(from.error()));
    if (!copied)
      report.problems.push_back(fmt::format("outputs: cannot copy {} to {}: {}",
                                            printable(item.from), printable(to.string()),
                                            copied.error().message));
  }
  return report;
}

}  // namespace dlrun::agent
