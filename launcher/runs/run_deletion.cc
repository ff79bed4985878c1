// A deletion renames RUNS/ID to RUNS/.deleted-ID-XXXXXXXXXXXXXXXX, checks it again, and creates the
// file `.deleted` in it. This file makes the deletion final: the run's index entry is removed, and
// then its files. If a renamed directory does not have this file, the deletion was interrupted
// before it was final. Another user who can rename entries of the runs folder cannot create the
// file, because the directory is the caller's.

#include "launcher/runs/run_deletion.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <utility>

#include "common/files.h"
#include "common/json_read.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "launcher/runs/deleted_runs.h"
#include "launcher/runs/journal.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/run_directory.h"

namespace dlrun {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRenamedPrefix = ".deleted-";
constexpr const char* kFinalMark = ".deleted";  // in the renamed directory
constexpr std::size_t kSuffixBytes = 8;         // written as 16 hex digits, after a hyphen

/// Files that change when a run is submitted, starts, restarts, ends, or is cancelled or
/// resubmitted.
constexpr std::array<const char*, 9> kFilesChangedByUse = {
    "submission.json", "submit.json", "sweep.json", "claim", "attempt",
    "events.jsonl",    "resubmitted", "cancelled",  "job.sh"};

/// A run's directory and the folder around it, both held open.
struct OpenedRun {
  UniqueFd parent, run;
  std::string name;
  DirectoryIdentity identity;
};

DirectoryIdentity identity_of(const struct stat& info) {
  return {info.st_dev, info.st_ino};
}

/// Returns the identity of an entry of the folder; nullopt if it does not exist.
std::optional<DirectoryIdentity> identity_in(int folder, const std::string& name) {
  struct stat info {};
  if (::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  return identity_of(info);
}

/// Returns true if dlrun gives this name to runs: NAME-YYYYMMDD-HHMMSS-xxxx, or NAME-JOB for a
/// script that was submitted by hand. A program can also claim any other directory as its run, such
/// as a home directory, if the user sets DLRUN_RUN.
bool has_name_of_run(const fs::path& run) {
  const std::string id = run.filename().string();
  if (name_of_id(id) != id) return true;
  constexpr std::size_t kLimit = 64U << 10U;
  const auto text = read_untrusted(run / "origin", kLimit, Links::kRefuse);
  const auto json = text ? json_read::object_of(*text) : std::nullopt;
  if (!json) return false;
  std::string job = json_read::text(*json, "job");
  std::replace_if(
      job.begin(), job.end(), [](char c) { return c == ':' || c == '/'; }, '-');
  const std::string name = json_read::text(*json, "name");
  return !job.empty() && !name.empty() && id == name + "-" + job;
}

Result<> check_has_files_of_run(int directory, const fs::path& run) {
  for (const char* file :
       {"submission.json", "claim", "events.jsonl", "sweep.json", "job.sh", "spec.yaml"}) {
    struct stat info {};
    if (::fstatat(directory, file, &info, AT_SYMLINK_NOFOLLOW) == 0) return {};
  }
  return fail(Errc::kUsage, "{}: holds no files of a run, so it is left alone",
              printable(run.string()));
}

Result<OpenedRun> open_run(const fs::path& run) {
  OpenedRun opened;
  opened.name = run.filename().string();
  const auto failed = [&] {
    const int error = errno;
    if (error == ELOOP || error == ENOTDIR)
      return fail(Errc::kUsage,
                  "{}: is not a directory; dlrun deletes the directory of a run, and no symbolic "
                  "link",
                  printable(run.string()));
    return fail(error == ENOENT ? Errc::kNotFound : Errc::kIo, "{}: {}", printable(run.string()),
                errno_text(error));
  };
  opened.parent.reset(::open(run.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!opened.parent.is_open()) return failed();
  opened.run.reset(::openat(opened.parent.get(), opened.name.c_str(),
                            O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {
  }, there{};
  if (!opened.run.is_open() || ::fstat(opened.run.get(), &info) != 0) return failed();
  opened.identity = identity_of(info);
  DLRUN_TRY(require_own(opened.name, run, "delete it"));
  if (info.st_uid != ::geteuid() || ::stat(run.c_str(), &there) != 0 ||
      identity_of(there) != opened.identity)
    return fail(Errc::kUsage, "{}: was replaced meanwhile, so it is left alone",
                printable(run.string()));
  if (!has_name_of_run(run))
    return fail(Errc::kUsage,
                "{}: does not have a name that dlrun gives to runs, so dlrun does not delete it; "
                "look into it, and delete it by hand",
                printable(run.string()));
  DLRUN_TRY(check_has_files_of_run(opened.run.get(), run));
  return opened;
}

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

UniqueFd open_directory_in(int directory, const std::string& name) {
  return UniqueFd(
      ::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

/// Calls visit(directory) for the run's directory, and for the arrays and points of a sweep. Stops
/// at the first failure.
Result<> each_directory(int run, const std::function<Result<>(int)>& visit) {
  DLRUN_TRY(visit(run));
  struct stat info {};
  if (::fstatat(run, "sweep.json", &info, AT_SYMLINK_NOFOLLOW) != 0) return {};
  DLRUN_TRY_ASSIGN(const auto arrays, names_in(run));
  for (const std::string& array : arrays) {
    const UniqueFd folder =
        array.starts_with("array-") ? open_directory_in(run, array) : UniqueFd();
    if (!folder.is_open()) continue;
    DLRUN_TRY(visit(folder.get()));
    DLRUN_TRY_ASSIGN(auto points, names_in(folder.get()));
    std::sort(points.begin(), points.end());
    for (const std::string& point : points) {
      const UniqueFd below = parse_int(point) ? open_directory_in(folder.get(), point) : UniqueFd();
      if (below.is_open()) DLRUN_TRY(visit(below.get()));
    }
  }
  return {};
}

/// Fails with kUsage if a process holds the lock of a submission in the directory.
Result<> check_not_locked(int directory) {
  const UniqueFd lock(
      ::openat(directory, "submission.lock", O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (lock.is_open() && ::flock(lock.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return fail(Errc::kUsage, "another dlrun is submitting it");
  return {};
}

/// Returns a text that changes when the run, or a point of the sweep, is used.
Result<std::string> stamps_of(int run) {
  std::string text;
  DLRUN_TRY(each_directory(run, [&](int directory) -> Result<> {
    add_stamps(directory, text);
    return {};
  }));
  return text;
}

/// The state of a run, and the stamps of the files that had this state.
struct CheckedState {
  RunState state = RunState::kUnknown;
  std::string stamps;
};

/// Calls the check until the run's files stay the same during the call, at most five times. The
/// check itself may write into the run, for example the end that a killed lead could not write.
Result<CheckedState> check_until_unchanged(const OpenedRun& opened, const DeletionCheck& check) {
  DLRUN_TRY_ASSIGN(auto before, stamps_of(opened.run.get()));
  constexpr int kTries = 5;
  for (int i = 0; i < kTries; ++i) {
    DLRUN_TRY_ASSIGN(const auto state, check());
    DLRUN_TRY_ASSIGN(auto after, stamps_of(opened.run.get()));
    if (after == before) return CheckedState{state, std::move(after)};
    before = std::move(after);
  }
  return fail(Errc::kUsage, "{}: its files change, so it is left alone", opened.name);
}

/// Returns the error about a run that was used after its state was checked.
tl::unexpected<Error> used_meanwhile_error(const OpenedRun& opened) {
  return fail(Errc::kUsage, "{}: was used meanwhile, so it is left alone", opened.name);
}

/// Renames an entry of the folder to a name that does not exist.
bool rename_to_new(int folder, const std::string& from, const std::string& to) {
  if (::renameat2(folder, from.c_str(), folder, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  // Some network file systems cannot rename exclusively. A directory replaces only an empty one.
  return errno == EINVAL && !identity_in(folder, to) &&
         ::renameat(folder, from.c_str(), folder, to.c_str()) == 0;
}

/// Gives the directory its name back, and returns the error. If that name exists again, the error
/// also says where the files are.
tl::unexpected<Error> put_back(const OpenedRun& opened, const std::string& renamed, Error why) {
  if (!rename_to_new(opened.parent.get(), renamed, opened.name))
    why.message +=
        fmt::format("; its files are in {}, because {} exists again", renamed, opened.name);
  return tl::unexpected<Error>(std::move(why));
}

/// Renames the run's directory, and makes its deletion final if it is still the directory that was
/// checked and nothing has used it since. Returns the new name.
Result<std::string> rename_for_deletion(const OpenedRun& opened, const CheckedState& checked) {
  const std::string renamed =
      fmt::format("{}{}-{}", kRenamedPrefix, opened.name, random_hex(kSuffixBytes));
  if (!rename_to_new(opened.parent.get(), opened.name, renamed)) {
    return fail(Errc::kIo, "{}: cannot be renamed, so it is left alone: {}", opened.name,
                errno_text(errno));
  }
  if (identity_in(opened.parent.get(), renamed) != opened.identity) {
    return put_back(opened, renamed,
                    {Errc::kUsage, fmt::format("{}: was replaced by another directory meanwhile, "
                                               "which is left alone",
                                               opened.name)});
  }
  const auto stamps = stamps_of(opened.run.get());
  if (!stamps || *stamps != checked.stamps)
    return put_back(opened, renamed, used_meanwhile_error(opened).value());
  const UniqueFd mark(
      ::openat(opened.run.get(), kFinalMark, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!mark.is_open())
    return put_back(opened, renamed,
                    {Errc::kIo, fmt::format("{}: {}", opened.name, errno_text(errno))});
  // If this process was stopped for minutes, another dlrun may have given the directory its name
  // back.
  if (identity_in(opened.parent.get(), renamed) != opened.identity) {
    static_cast<void>(::unlinkat(opened.run.get(), kFinalMark, 0));
    return used_meanwhile_error(opened);
  }
  return renamed;
}

/// Returns the name that a renamed directory had before; nullopt if the name is not
/// .deleted-NAME-XXXXXXXXXXXXXXXX. A user may have a folder such as .deleted-experiments.
std::optional<std::string> name_before(std::string_view renamed) {
  constexpr std::size_t kEndSize = 2 * kSuffixBytes + 1;  // the hyphen and the digits
  if (!renamed.starts_with(kRenamedPrefix) || renamed.size() <= kRenamedPrefix.size() + kEndSize)
    return std::nullopt;
  const auto end = renamed.substr(renamed.size() - kEndSize);
  if (end[0] != '-' || end.find_first_not_of("0123456789abcdef", 1) != std::string_view::npos)
    return std::nullopt;
  return std::string(
      renamed.substr(kRenamedPrefix.size(), renamed.size() - kRenamedPrefix.size() - kEndSize));
}

/// Deletes the content of a renamed directory and then the directory.
TreeDeletion delete_renamed(int parent, const std::string& name, int directory) {
  TreeDeletion effect = delete_tree(directory, kFinalMark);
  struct stat info {};
  if (effect.left > 0 || ::fstat(directory, &info) != 0) return effect;
  if (identity_in(parent, name) == identity_of(info) &&
      ::unlinkat(parent, name.c_str(), AT_REMOVEDIR) != 0) {
    effect.left = 1;
    effect.why_left = fmt::format("{}: {}", name, errno_text(errno));
  }
  return effect;
}

/// Calls visit(directory, name) for each entry that RunParts::kDiagnostics covers. Visits only
/// names that dlrun gives, because a program may keep checkpoints under any other name.
Result<> each_diagnostic(int run, const std::function<void(int, const std::string&)>& visit) {
  return each_directory(run, [&](int directory) -> Result<> {
    DLRUN_TRY_ASSIGN(const auto names, names_in(directory));
    for (const std::string& name : names) {
      const bool is_log =
          name == "local.out" ||
          ((name.starts_with("slurm-") || name.starts_with("task-")) && name.ends_with(".out"));
      struct stat info {};
      if (is_log && ::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
          !S_ISDIR(info.st_mode))
        visit(directory, name);
    }
    for (const char* folder : {"logs", "debug", "autopsy", "trace", "profile"}) {
      const UniqueFd below = open_directory_in(directory, folder);
      if (!below.is_open()) continue;
      DLRUN_TRY_ASSIGN(const auto inside, names_in(below.get()));
      for (const std::string& name : inside) {
        if (name.starts_with("attempt-") || name.ends_with(".log")) visit(below.get(), name);
      }
    }
    return {};
  });
}

/// Remembers the run as deleted, and removes it from the index. Does nothing if the index has
/// another run of this id, because then the deleted run was a copy.
Result<> remember_as_deleted(const RunIndex& index, const IndexEntry& run, std::string_view state) {
  const auto indexed = index.find(run.id);
  if (indexed && indexed->path != run.path) return {};
  const auto now = std::chrono::system_clock::now();
  auto remembered = DeletedRuns::beside(index).add(
      {indexed.value_or(run), std::string(state), utc_timestamp(now)});
  // Removes the entry of the index even if the run could not be remembered, such as on a full disk.
  DLRUN_TRY(index.remove(run.id));
  return remembered;
}

}  // namespace

Result<ExaminedRun> examine_run(const IndexEntry& run, RunParts parts) {
  DLRUN_TRY_ASSIGN(const auto opened, open_run(run.path));
  ExaminedRun examined;
  examined.identity = opened.identity;
  if (parts == RunParts::kAll) {
    examined.size = measure_tree(opened.run.get());
    return examined;
  }
  DLRUN_TRY(each_diagnostic(opened.run.get(), [&](int directory, const std::string& name) {
    examined.size += measure_entry(directory, name);
  }));
  return examined;
}

Result<TreeDeletion> delete_run(const RunIndex& index, const IndexEntry& run,
                                const DirectoryIdentity& examined, RunParts parts,
                                const DeletionCheck& check) {
  DLRUN_TRY_ASSIGN(const auto opened, open_run(run.path));
  if (opened.identity != examined) {
    return fail(Errc::kUsage,
                "{}: was replaced by another directory meanwhile, which is left "
                "alone",
                printable(run.path.string()));
  }
  // A search (sweep.ask) holds this lock as long as it may add points.
  if (::flock(opened.run.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return fail(Errc::kUsage, "{}: its search still runs", run.id);
  DLRUN_TRY_ASSIGN(const auto checked, check_until_unchanged(opened, check));
  if (auto locked = each_directory(opened.run.get(), check_not_locked); !locked)
    return within(run.id, locked.error());
  // Take the lock after the check: for a run whose lock is held, the check returns the state
  // "pending".
  DLRUN_TRY_ASSIGN(const auto lock, SubmissionLock::take_in(opened.run.get(), run.id));
  DLRUN_TRY_ASSIGN(const auto stamps, stamps_of(opened.run.get()));
  if (stamps != checked.stamps) return used_meanwhile_error(opened);
  TreeDeletion effect;
  if (parts == RunParts::kDiagnostics) {
    DLRUN_TRY(each_diagnostic(opened.run.get(), [&](int directory, const std::string& name) {
      effect += delete_entry(directory, name);
    }));
    return effect;
  }
  DLRUN_TRY_ASSIGN(const auto renamed, rename_for_deletion(opened, checked));
  const auto remembered = remember_as_deleted(index, run, word(checked.state));
  effect = delete_renamed(opened.parent.get(), renamed, opened.run.get());
  if (!remembered)
    return within("the files are deleted, but the list of runs could not be changed",
                  remembered.error());
  return effect;
}

Result<> forget_run(const RunIndex& index, const IndexEntry& run) {
  struct stat info {};
  if (::lstat(run.path.c_str(), &info) == 0 || errno != ENOENT)
    return fail(Errc::kUsage, "{}: its directory exists", run.id);
  if (::stat(run.path.parent_path().c_str(), &info) != 0)
    return fail(
        Errc::kUsage,
        "{}: the folder {} is missing, too. Its file system may not be mounted here, so the "
        "run stays in the index",
        run.id, printable(run.path.parent_path().string()));
  return remember_as_deleted(index, run, "");
}

TreeDeletion finish_deletions(const fs::path& runs_dir) {
  TreeDeletion effect;
  const UniqueFd folder(::open(runs_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto names = folder.is_open() ? names_in(folder.get()) : Result<std::vector<std::string>>();
  if (!folder.is_open() || !names) return effect;
  for (const std::string& name : *names) {
    const auto before = name_before(name);
    if (!before) continue;
    const UniqueFd directory = open_directory_in(folder.get(), name);
    struct stat info {
    }, mark{};
    if (!directory.is_open() || ::fstat(directory.get(), &info) != 0 || info.st_uid != ::geteuid())
      continue;
    if (::fstatat(directory.get(), kFinalMark, &mark, AT_SYMLINK_NOFOLLOW) == 0) {
      if (mark.st_uid == ::geteuid()) effect += delete_renamed(folder.get(), name, directory.get());
      continue;
    }
    // Another dlrun may have renamed the directory just now, and may be about to create the mark.
    constexpr std::int64_t kPatienceSeconds = 60;
    const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    if (now - info.st_ctim.tv_sec > kPatienceSeconds)
      static_cast<void>(rename_to_new(folder.get(), name, *before));
  }
  return effect;
}

}  // namespace dlrun
