// A deletion writes a mark into RUNS/ID, renames the directory to
// RUNS/.deleted-ID-XXXXXXXXXXXXXXXX, checks the directory again, and renames the mark from
// `.deletion-planned` to `.deleted`. With this second renaming the deletion is final: the run's
// index entry is removed, and then the run's files.
//
// A deletion may be interrupted before it is final. A later `dlrun rm` of the run, or `dlrun
// prune`, then finishes the deletion if the run was not used after the mark was written. If the run
// was used, that command gives the directory its old name back.
//
// The mark contains the run's id, and the new name and the inode of the directory. So another user
// who can rename entries of the runs folder cannot make dlrun delete another directory of this
// user. The mark does not contain the device number, because a network file system has a different
// one on each host.

#include "launcher/runs/deletion_mark.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <utility>

#include "common/files.h"
#include "common/json_read.h"
#include "common/sha256.h"
#include "common/text.h"

namespace dlrun {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRenamedPrefix = ".deleted-";
constexpr const char* kPlannedMark = ".deletion-planned";  // in the run's directory
constexpr std::size_t kLargestMarkBytes = 4096;
constexpr std::size_t kSuffixBytes = 8;  // written as 16 hex digits, after a hyphen

/// Files that change when a run is submitted, starts, restarts, ends, or is cancelled or
/// resubmitted.
constexpr std::array<const char*, 9> kFilesChangedByUse = {
    "submission.json", "submit.json", "sweep.json", "claim", "attempt",
    "events.jsonl",    "resubmitted", "cancelled",  "job.sh"};

/// Adds the identities, sizes and times of a directory's kFilesChangedByUse to the text.
void add_stamps(int directory, std::string& text) {
  for (const char* file : kFilesChangedByUse) {
    struct stat info {};
    if (::fstatat(directory, file, &info, AT_SYMLINK_NOFOLLOW) != 0) {
      text += "-\n";
      continue;
    }
    text += fmt::format("{} {} {}.{} {}.{}\n", info.st_ino, info.st_size, info.st_mtim.tv_sec,
                        info.st_mtim.tv_nsec, info.st_ctim.tv_sec, info.st_ctim.tv_nsec);
  }
}

/// Renames an entry of the folder. Returns false if the new name exists already, or if the entry
/// cannot be renamed.
bool rename_to_new(int folder, const std::string& from, const std::string& to) {
  if (::renameat2(folder, from.c_str(), folder, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  // Some network file systems cannot rename exclusively. There a plain rename is safe enough: it
  // replaces an existing directory only if that directory is empty.
  return errno == EINVAL && !identity_in(folder, to) &&
         ::renameat(folder, from.c_str(), folder, to.c_str()) == 0;
}

/// The contents of a mark.
struct DeletionMark {
  std::string run, renamed;   ///< the names of the directory before and after the renaming
  std::string inode;          ///< of the directory
  std::string stamps_sha256;  ///< hash of stamps_of() when the run's state was checked
  bool operator==(const DeletionMark&) const = default;
};

DeletionMark mark_for(const std::string& run, const std::string& renamed, ino_t inode,
                      const std::string& stamps) {
  return {run, renamed, std::to_string(inode), sha256_of_text(stamps)};
}

/// Writes the mark of a planned deletion into the run's directory, and syncs it.
Result<> write_mark(const OpenedRun& opened, const DeletionMark& mark) {
  const nlohmann::ordered_json json{{"run", mark.run},
                                    {"renamed", mark.renamed},
                                    {"inode", mark.inode},
                                    {"stamps", mark.stamps_sha256}};
  static_cast<void>(::unlinkat(opened.run.get(), kPlannedMark, 0));  // of an interrupted deletion
  const UniqueFd file(::openat(opened.run.get(), kPlannedMark,
                               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  const auto failed = [&](int error) {
    return fail(Errc::kIo, "cannot write {}/{}: {}", opened.name, kPlannedMark, errno_text(error));
  };
  if (!file.is_open()) return failed(errno);
  if (write_all(file.get(), json_read::dump(json) + "\n") && ::fsync(file.get()) == 0) return {};
  const int error = errno;
  // A full disk is a reason to delete runs, so this error is ignored. Only a later call that
  // finishes this deletion after an interruption needs the contents of the mark. Without them, that
  // call only reports the directory.
  if (error == ENOSPC || error == EDQUOT) return {};
  return failed(error);
}

/// Reads a mark; nullopt if there is none, or if it is damaged or another user's.
std::optional<DeletionMark> read_mark(int directory, const char* name) {
  const auto json = json_read::object_of(read_own_file(directory, name, kLargestMarkBytes));
  if (!json) return std::nullopt;
  return DeletionMark{json_read::text(*json, "run"), json_read::text(*json, "renamed"),
                      json_read::text(*json, "inode"), json_read::text(*json, "stamps")};
}

/// Gives the directory its name back, removes the mark, and returns the error. If the directory
/// cannot get its name back, the error also says where the files are.
tl::unexpected<Error> put_back(const OpenedRun& opened, const std::string& renamed, Error why) {
  if (!rename_to_new(opened.parent.get(), renamed, opened.name)) {
    const int error = errno;
    const bool exists_again = identity_in(opened.parent.get(), opened.name).has_value();
    why.message += fmt::format(
        "; its files are in {}, because {}", renamed,
        exists_again ? opened.name + " exists again"
                     : fmt::format("{} cannot be renamed back: {}", renamed, errno_text(error)));
  }
  static_cast<void>(::unlinkat(opened.run.get(), kPlannedMark, 0));
  return tl::unexpected<Error>(std::move(why));
}

/// Makes the deletion of a renamed directory final. Returns false and sets errno on failure.
bool make_final(int directory) {
  return ::renameat(directory, kPlannedMark, directory, kFinalMark) == 0;
}

/// Returns the name that a renamed directory had before; nullopt if the name is not
/// .deleted-ID-XXXXXXXXXXXXXXXX. A user may have a folder such as .deleted-experiments.
std::optional<std::string> name_before_renaming(std::string_view renamed) {
  constexpr std::size_t kEndSize = 2 * kSuffixBytes + 1;  // the hyphen and the digits
  if (!renamed.starts_with(kRenamedPrefix) || renamed.size() <= kRenamedPrefix.size() + kEndSize)
    return std::nullopt;
  const auto end = renamed.substr(renamed.size() - kEndSize);
  if (end[0] != '-' || end.find_first_not_of("0123456789abcdef", 1) != std::string_view::npos)
    return std::nullopt;
  return std::string(
      renamed.substr(kRenamedPrefix.size(), renamed.size() - kRenamedPrefix.size() - kEndSize));
}

/// Finishes an interrupted deletion, or gives the directory `old_name` back if the run was used
/// before the deletion was final. Does nothing if the directory has the mark of another deletion.
/// Without a readable mark, removes the directory if it is empty, and otherwise reports it.
void finish_deletion(int folder, const std::string& name, const std::string& old_name,
                     FinishedDeletions& effect) {
  const UniqueFd directory = open_below(folder, name);
  struct stat info {};
  if (!directory.is_open() || ::fstat(directory.get(), &info) != 0 || info.st_uid != ::geteuid())
    return;
  const auto final_mark = read_mark(directory.get(), kFinalMark);
  const auto mark = final_mark ? final_mark : read_mark(directory.get(), kPlannedMark);
  if (!mark) {
    // A deletion that was killed after it had deleted the mark leaves an empty directory.
    if (::unlinkat(folder, name.c_str(), AT_REMOVEDIR) != 0)
      effect.done += TreeDeletion{
          {},
          1,
          name + ": has no readable mark of a deletion; look into it, and delete it by hand"};
    return;
  }
  if (mark->run != old_name || mark->renamed != name || mark->inode != std::to_string(info.st_ino))
    return;
  // On a file system without locks, another dlrun may have renamed the directory just now, and may
  // be about to make the deletion final.
  constexpr std::int64_t kPatienceSeconds = 60;
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  const bool is_locked = ::flock(directory.get(), LOCK_EX | LOCK_NB) == 0;
  if (!is_locked &&
      (errno == EWOULDBLOCK || (!final_mark && now - info.st_ctim.tv_sec <= kPatienceSeconds))) {
    effect.is_another_at_work = true;
    return;
  }
  if (!final_mark) {
    const auto stamps = stamps_of(directory.get());
    if (!stamps || sha256_of_text(*stamps) != mark->stamps_sha256) {
      if (rename_to_new(folder, name, old_name))
        static_cast<void>(::unlinkat(directory.get(), kPlannedMark, 0));
      return;
    }
    if (!make_final(directory.get())) return;
  }
  TreeDeletion done = delete_renamed(folder, name, directory.get());
  if (done.undeleted_count > 0) done.first_undeleted = name + "/" + done.first_undeleted;
  effect.done += done;
}

}  // namespace

Result<std::string> stamps_of(int run) {
  std::string text;
  DLRUN_TRY(visit_directories_of_run(run, [&](int directory, const std::string&) -> Result<> {
    add_stamps(directory, text);
    return {};
  }));
  return text;
}

tl::unexpected<Error> used_meanwhile_error(const OpenedRun& opened) {
  return fail(Errc::kUsage, "{}: was used meanwhile, so it is left alone", opened.name);
}

Result<std::string> rename_for_deletion(const OpenedRun& opened, const std::string& stamps) {
  const std::string renamed =
      fmt::format("{}{}-{}", kRenamedPrefix, opened.name, random_hex(kSuffixBytes));
  DLRUN_TRY(write_mark(opened, mark_for(opened.name, renamed, opened.identity.inode, stamps)));
  // Writing the mark takes milliseconds. A job that claims the run in this time must not find its
  // directory renamed.
  if (const auto now = stamps_of(opened.run.get()); !now || *now != stamps) {
    static_cast<void>(::unlinkat(opened.run.get(), kPlannedMark, 0));
    return used_meanwhile_error(opened);
  }
  if (!rename_to_new(opened.parent.get(), opened.name, renamed)) {
    const int error = errno;
    static_cast<void>(::unlinkat(opened.run.get(), kPlannedMark, 0));
    return fail(Errc::kIo, "{}: cannot be renamed, so it is left alone: {}", opened.name,
                errno_text(error));
  }
  if (identity_in(opened.parent.get(), renamed) != opened.identity) {
    return put_back(opened, renamed,
                    {Errc::kUsage, fmt::format("{}: was replaced by another directory meanwhile, "
                                               "which is left alone",
                                               opened.name)});
  }
  const auto after = stamps_of(opened.run.get());
  if (!after || *after != stamps)
    return put_back(opened, renamed, used_meanwhile_error(opened).value());
  if (!make_final(opened.run.get()))
    return put_back(opened, renamed,
                    {Errc::kIo, fmt::format("{}: cannot be marked as deleted: {}", opened.name,
                                            errno_text(errno))});
  // If this process was suspended for minutes, another dlrun may have given the directory its old
  // name back.
  if (identity_in(opened.parent.get(), renamed) != opened.identity) {
    static_cast<void>(::unlinkat(opened.run.get(), kFinalMark, 0));
    return used_meanwhile_error(opened);
  }
  return renamed;
}

TreeDeletion delete_renamed(int parent, const std::string& name, int directory) {
  TreeDeletion effect = delete_contents(directory, kFinalMark);
  struct stat info {};
  if (effect.undeleted_count > 0 || ::fstat(directory, &info) != 0) return effect;
  if (identity_in(parent, name) == identity_of(info) &&
      ::unlinkat(parent, name.c_str(), AT_REMOVEDIR) != 0) {
    effect.undeleted_count = 1;
    effect.first_undeleted = fmt::format("{}: {}", name, errno_text(errno));
  }
  return effect;
}

FinishedDeletions finish_deletions(const fs::path& runs_dir, const std::string& only) {
  FinishedDeletions effect;
  const UniqueFd folder(::open(runs_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto names = folder.is_open() ? names_in(folder.get()) : Result<std::vector<std::string>>();
  if (!folder.is_open() || !names) return effect;
  for (const std::string& name : *names) {
    const auto old_name = name_before_renaming(name);
    if (old_name && (only.empty() || *old_name == only))
      finish_deletion(folder.get(), name, *old_name, effect);
  }
  return effect;
}

}  // namespace dlrun
