// A deletion writes a mark into RUNS/ID, renames the directory to
// RUNS/.deleted-ID-XXXXXXXXXXXXXXXX, checks it again, and renames the mark from `.deletion-planned`
// to `.deleted`. This makes the deletion final: the run's index entry is removed, and then its
// files. If the deletion is interrupted before it is final, the next one makes it final if the run
// was not used since, and otherwise gives the directory its name back.
//
// The mark names the run, the new name and the inode of the directory. So another user who can
// rename entries of the runs folder cannot make dlrun delete another directory of the caller. The
// mark does not name the device, because a network file system has a different one on each host.

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
#include "common/sha256.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "launcher/runs/deleted_runs.h"
#include "launcher/runs/diagnostic_files.h"
#include "launcher/runs/journal.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/run_directory.h"

namespace dlrun {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRenamedPrefix = ".deleted-";
constexpr const char* kPlannedMark = ".deletion-planned";  // in the run's directory
constexpr const char* kFinalMark = ".deleted";
constexpr std::size_t kLargestMark = 4096;
constexpr std::size_t kSuffixBytes = 8;  // written as 16 hex digits, after a hyphen

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

/// Reads a regular file of the caller in the directory. Returns "" if there is none.
std::string own_file_in(int directory, const char* name, std::size_t limit_bytes) {
  const UniqueFd file(
      ::openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat info {};
  if (!file.is_open() || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) ||
      info.st_uid != ::geteuid() || static_cast<std::size_t>(info.st_size) > limit_bytes)
    return {};
  std::string text(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + size, text.size() - size);
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  return text;
}

/// Returns whether the journal in the directory names this run: its command has the path of the
/// run's script. Returns nullopt if there is no journal with a command.
std::optional<bool> journal_names_run(int directory, const std::string& id) {
  constexpr std::size_t kLimit = 1U << 20U;
  const auto json = json_read::object_of(own_file_in(directory, "submission.json", kLimit));
  const auto argv = json ? json->find("argv") : nlohmann::ordered_json::const_iterator();
  if (!json || argv == json->end() || !argv->is_array() || argv->empty()) return std::nullopt;
  return std::any_of(argv->begin(), argv->end(), [&](const nlohmann::ordered_json& word) {
    return word.is_string() && word.get<std::string>().find("/" + id + "/") != std::string::npos;
  });
}

/// Checks that the files in the directory are those of this run. Another user who can rename
/// entries of the runs folder may have given the run's name to another directory of the caller.
Result<> check_is_this_run(int directory, const fs::path& run) {
  const std::string id = run.filename().string();
  auto names_run = journal_names_run(directory, id);
  if (!names_run) {
    const UniqueFd array = open_below(directory, "array-0");
    if (array.is_open()) names_run = journal_names_run(array.get(), id);
  }
  if (!names_run) {
    // A run that was never submitted has only the plan. The run of a script that was submitted by
    // hand has only `origin`, which has_name_of_run() has compared with the name.
    constexpr std::size_t kLimit = 16U << 20U;
    const auto plan = json_read::object_of(own_file_in(directory, "plan.json", kLimit));
    names_run = name_of_id(id) == id || (plan && json_read::text(*plan, "name") == name_of_id(id));
  }
  if (*names_run) return {};
  return fail(Errc::kUsage,
              "{}: no file in it says that it is this run, so it is left alone. Look into it, and "
              "delete it by hand",
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
  DLRUN_TRY(check_is_this_run(opened.run.get(), run));
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

bool has_sweep_record(int run) {
  struct stat info {};
  return ::fstatat(run, "sweep.json", &info, AT_SYMLINK_NOFOLLOW) == 0;
}

/// Locks a run's directory. Returns false if another process holds the lock, and true on a file
/// system without locks.
bool lock_directory(int directory) {
  return ::flock(directory, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

/// Receives a directory, and its path from the run's directory: "", "array-0" or "array-0/7".
using RunVisitor = std::function<Result<>(int directory, const std::string& where)>;

/// Calls visit for the run's directory, and for the arrays and points of a sweep. Stops at the
/// first failure. Calls mounted (empty: never) instead for a directory on which something is
/// mounted.
Result<> each_run_and_array(int run, const RunVisitor& visit,
                            const std::function<void(const std::string&)>& mounted = {}) {
  DLRUN_TRY(visit(run, ""));
  if (!has_sweep_record(run)) return {};
  const auto open = [&](int parent, const std::string& name, const std::string& where) {
    if (!mounted || !is_mount_point(parent, name)) return open_below(parent, name);
    mounted(where);
    return UniqueFd();
  };
  DLRUN_TRY_ASSIGN(const auto arrays, names_in(run));
  for (const std::string& array : arrays) {
    const UniqueFd folder = array.starts_with("array-") ? open(run, array, array) : UniqueFd();
    if (!folder.is_open()) continue;
    DLRUN_TRY(visit(folder.get(), array));
    DLRUN_TRY_ASSIGN(auto points, names_in(folder.get()));
    std::sort(points.begin(), points.end());
    for (const std::string& point : points) {
      const std::string where = array + "/" + point;
      const UniqueFd below = parse_int(point) ? open(folder.get(), point, where) : UniqueFd();
      if (below.is_open()) DLRUN_TRY(visit(below.get(), where));
    }
  }
  return {};
}

/// Fails with kUsage if a process holds the lock of a submission in the directory.
Result<> check_not_locked(int directory, const std::string&) {
  const UniqueFd lock(
      ::openat(directory, kSubmissionLockFile, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (lock.is_open() && ::flock(lock.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return fail(Errc::kUsage, "another dlrun is submitting it");
  return {};
}

/// Returns a text that changes when the run, or a point of the sweep, is used.
Result<std::string> stamps_of(int run) {
  std::string text;
  DLRUN_TRY(each_run_and_array(run, [&](int directory, const std::string&) -> Result<> {
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

/// The contents of a mark.
struct DeletionMark {
  std::string run, renamed;  ///< the names of the directory before and after the renaming
  std::string inode;         ///< of the directory
  std::string stamps;        ///< the SHA-256 of stamps_of() when the run's state was checked
  bool operator==(const DeletionMark&) const = default;
};

DeletionMark mark_for(const std::string& run, const std::string& renamed, ino_t inode,
                      const std::string& stamps) {
  return {run, renamed, std::to_string(inode), sha256_of_text(stamps)};
}

/// Writes the mark of a planned deletion into the run's directory, and syncs it.
Result<> write_mark(const OpenedRun& opened, const DeletionMark& mark) {
  const nlohmann::ordered_json json{
      {"run", mark.run}, {"renamed", mark.renamed}, {"inode", mark.inode}, {"stamps", mark.stamps}};
  static_cast<void>(::unlinkat(opened.run.get(), kPlannedMark, 0));  // of an interrupted deletion
  const UniqueFd file(::openat(opened.run.get(), kPlannedMark,
                               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.is_open()) return fail(Errc::kIo, "{}: {}", opened.name, errno_text(errno));
  if (write_all(file.get(), json_read::dump(json) + "\n") && ::fsync(file.get()) == 0) return {};
  const int error = errno;
  // A full disk is a reason to delete runs. Without a mark only an interrupted deletion is not
  // finished by a later call.
  if (error == ENOSPC || error == EDQUOT) return {};
  return fail(Errc::kIo, "{}: {}", opened.name, errno_text(error));
}

/// Reads a mark; nullopt if there is none, or if it is damaged or another user's.
std::optional<DeletionMark> read_mark(int directory, const char* name) {
  const auto json = json_read::object_of(own_file_in(directory, name, kLargestMark));
  if (!json) return std::nullopt;
  return DeletionMark{json_read::text(*json, "run"), json_read::text(*json, "renamed"),
                      json_read::text(*json, "inode"), json_read::text(*json, "stamps")};
}

/// Gives the directory its name back, removes the mark, and returns the error. If that name exists
/// again, the error also says where the files are.
tl::unexpected<Error> put_back(const OpenedRun& opened, const std::string& renamed, Error why) {
  if (!rename_to_new(opened.parent.get(), renamed, opened.name)) {
    why.message +=
        fmt::format("; its files are in {}, because {} exists again", renamed, opened.name);
  }
  static_cast<void>(::unlinkat(opened.run.get(), kPlannedMark, 0));
  return tl::unexpected<Error>(std::move(why));
}

/// Makes the deletion of a renamed directory final.
bool make_final(int directory) {
  return ::renameat(directory, kPlannedMark, directory, kFinalMark) == 0;
}

/// Marks and renames the run's directory, and makes its deletion final if it is still the directory
/// that was checked and nothing has used it since. Returns the new name.
Result<std::string> rename_for_deletion(const OpenedRun& opened, const CheckedState& checked) {
  const std::string renamed =
      fmt::format("{}{}-{}", kRenamedPrefix, opened.name, random_hex(kSuffixBytes));
  DLRUN_TRY(
      write_mark(opened, mark_for(opened.name, renamed, opened.identity.inode, checked.stamps)));
  // Writing the mark takes milliseconds. A job that claims the run in this time must not find its
  // directory renamed.
  if (const auto now = stamps_of(opened.run.get()); !now || *now != checked.stamps) {
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
  const auto stamps = stamps_of(opened.run.get());
  if (!stamps || *stamps != checked.stamps)
    return put_back(opened, renamed, used_meanwhile_error(opened).value());
  if (!make_final(opened.run.get()))
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
  TreeDeletion effect = delete_contents(directory, kFinalMark);
  struct stat info {};
  if (effect.left > 0 || ::fstat(directory, &info) != 0) return effect;
  if (identity_in(parent, name) == identity_of(info) &&
      ::unlinkat(parent, name.c_str(), AT_REMOVEDIR) != 0) {
    effect.left = 1;
    effect.why_left = fmt::format("{}: {}", name, errno_text(errno));
  }
  return effect;
}

/// Visits the files that RunParts::kDiagnostics covers.
Result<> each_diagnostic(int run, const fs::path& path, const DiagnosticVisitor& visitor) {
  const std::string checkpoints = checkpoint_folder_of(path);
  return each_run_and_array(
      run,
      [&](int directory, const std::string& where) {
        DiagnosticVisitor here = visitor;
        here.mounted = [&](const std::string& folder) {
          visitor.mounted(where.empty() ? folder : where + "/" + folder);
        };
        return find_diagnostics(directory, checkpoints, here);
      },
      visitor.mounted);
}

Result<TreeDeletion> delete_diagnostics(int run, const fs::path& path) {
  TreeDeletion effect;
  DiagnosticVisitor visitor;
  visitor.file = [&](int folder, const std::string& name) { effect += delete_entry(folder, name); };
  visitor.folder = [](int parent, const std::string& name) {
    static_cast<void>(::unlinkat(parent, name.c_str(), AT_REMOVEDIR));  // only if it is empty
  };
  visitor.mounted = [&](const std::string& folder) {
    effect += TreeDeletion{{}, 1, folder + ": it is a mount point"};
  };
  DLRUN_TRY(each_diagnostic(run, path, visitor));
  return effect;
}

/// Finishes an interrupted deletion, or gives the directory its old name back if the run was used
/// before the deletion was final. Does nothing if the directory does not have the mark of its own
/// deletion.
void finish_deletion(int folder, const std::string& name, const std::string& before,
                     FinishedDeletions& effect) {
  const UniqueFd directory = open_below(folder, name);
  struct stat info {};
  if (!directory.is_open() || ::fstat(directory.get(), &info) != 0 || info.st_uid != ::geteuid())
    return;
  const auto final_mark = read_mark(directory.get(), kFinalMark);
  const auto mark = final_mark ? final_mark : read_mark(directory.get(), kPlannedMark);
  if (!mark) {
    // Removes the directory of a deletion that was killed after it had deleted the mark. Does
    // nothing if the directory is not empty.
    if (::unlinkat(folder, name.c_str(), AT_REMOVEDIR) != 0)
      effect.done += TreeDeletion{
          {},
          1,
          name + ": has no readable mark of a deletion; look into it, and delete it by hand"};
    return;
  }
  if (mark->run != before || mark->renamed != name || mark->inode != std::to_string(info.st_ino))
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
    if (!stamps || sha256_of_text(*stamps) != mark->stamps) {
      if (rename_to_new(folder, name, before))
        static_cast<void>(::unlinkat(directory.get(), kPlannedMark, 0));
      return;
    }
    if (!make_final(directory.get())) return;
  }
  TreeDeletion done = delete_renamed(folder, name, directory.get());
  if (done.left > 0) done.why_left = name + "/" + done.why_left;
  effect.done += done;
}

/// Fails with kUsage if the folder of the run may lack its file system: it does not exist, or it is
/// empty although the index has several runs in it.
Result<> check_folder_is_mounted(const RunIndex& index, const IndexEntry& run) {
  const fs::path folder = run.path.parent_path();
  const UniqueFd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened.is_open())
    return fail(
        Errc::kUsage,
        "{}: the folder {} is missing, too. Its file system may not be mounted here, so the "
        "run stays in the index",
        run.id, printable(folder.string()));
  const auto names = names_in(opened.get());
  if (names && !names->empty()) return {};
  DLRUN_TRY_ASSIGN(const auto listing, index.list());
  const auto count =
      std::count_if(listing.entries.begin(), listing.entries.end(),
                    [&](const IndexEntry& one) { return one.path.parent_path() == folder; });
  if (count < 2) return {};
  return fail(Errc::kUsage,
              "{0}: the folder {1} is empty, although {2} runs of your list were in it. Its file "
              "system may not be mounted here, so the run stays in the list. If you have deleted "
              "these runs by hand, make a file in the folder first: `touch {1}/deleted`",
              run.id, printable(folder.string()), count);
}

/// Returns true if the path is that of an array, a point or a follow-up job of the run itself.
bool is_own_part(const std::string& where) {
  const auto parts = split(where, '/');
  return (parts.size() <= 2 && parts[0].starts_with("array-") &&
          (parts.size() == 1 || parse_int(parts[1]).has_value())) ||
         (parts.size() == 1 && parts[0].starts_with("chain-"));
}

/// Returns true if the directory is another run: it has a job's claim, or both the name and the
/// files of a run. A program may have a file `claim` or `events.jsonl` of its own.
bool is_another_run(int directory, const std::string& where,
                    const std::vector<std::string>& names) {
  const auto has = [&](const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  constexpr std::size_t kLimit = 1U << 20U;
  if (has("claim")) {
    const auto json = json_read::object_of(own_file_in(directory, "claim", kLimit));
    if (json && !json_read::text(*json, "job").empty() && json->contains("token")) return true;
  }
  const std::string name = where.substr(where.rfind('/') + 1);
  return name_of_id(name) != name &&
         (has("claim") || has("events.jsonl") || has("submission.json") || has("sweep.json"));
}

/// Measures the run. Fails with kUsage if another run is inside its directory.
Result<TreeSize> measure_alone(int run, const IndexEntry& entry) {
  std::string inner;
  const TreeSize size =
      measure_tree(run, [&](const std::string& where, int directory, const auto& names) {
        if (inner.empty() && !is_own_part(where) && is_another_run(directory, where, names))
          inner = where;
      });
  if (inner.empty()) return size;
  return fail(Errc::kUsage,
              "{}: another run is inside its directory; delete that run first: `dlrun rm {}`",
              entry.id, printable((entry.path / inner).string()));
}

/// Subtracts the files that the deletion itself made (its mark and the lock of submissions) from
/// what it freed. The result then equals the size of the run before the deletion.
void leave_out_own_files(TreeDeletion& effect, const TreeSize& own) {
  if (effect.left > 0) return;  // these files may be among those that are left
  effect.freed.files -= own.files;
  effect.freed.bytes -= own.bytes;
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
    DLRUN_TRY_ASSIGN(examined.size, measure_alone(opened.run.get(), run));
    return examined;
  }
  DiagnosticVisitor visitor;
  visitor.file = [&](int folder, const std::string& name) {
    examined.size += measure_entry(folder, name);
  };
  visitor.folder = [](int, const std::string&) {};
  visitor.mounted = [&](const std::string&) { ++examined.size.unread; };
  DLRUN_TRY(each_diagnostic(opened.run.get(), run.path, visitor));
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
  // A search (sweep.ask) holds this lock as long as it may add points, and another rm or prune
  // holds it until the run is deleted.
  if (!lock_directory(opened.run.get())) {
    return fail(Errc::kUsage, "{}: {}", run.id,
                has_sweep_record(opened.run.get())
                    ? "its search still runs, or another dlrun is deleting it"
                    : "another dlrun is deleting it");
  }
  DLRUN_TRY_ASSIGN(const auto checked, check_until_unchanged(opened, check));
  if (auto locked = each_run_and_array(opened.run.get(), check_not_locked); !locked)
    return within(run.id, locked.error());
  // Take the lock after the check: for a run whose lock is held, the check returns the state
  // "pending".
  DLRUN_TRY_ASSIGN(const auto lock, SubmissionLock::take_in(opened.run.get(), run.id));
  DLRUN_TRY_ASSIGN(const auto stamps, stamps_of(opened.run.get()));
  if (stamps != checked.stamps) return used_meanwhile_error(opened);
  if (parts == RunParts::kAll) DLRUN_TRY(measure_alone(opened.run.get(), run));
  if (parts == RunParts::kDiagnostics) return delete_diagnostics(opened.run.get(), run.path);
  DLRUN_TRY_ASSIGN(const auto renamed, rename_for_deletion(opened, checked));
  const auto remembered = remember_as_deleted(index, run, word(checked.state));
  TreeSize own = measure_entry(opened.run.get(), kFinalMark);
  own += measure_entry(opened.run.get(), kSubmissionLockFile);
  auto effect = delete_renamed(opened.parent.get(), renamed, opened.run.get());
  leave_out_own_files(effect, own);
  if (!remembered)
    return within("the files are deleted, but the list of runs could not be changed",
                  remembered.error());
  return effect;
}

Result<TreeDeletion> forget_run(const RunIndex& index, const IndexEntry& run) {
  struct stat info {};
  if (::lstat(run.path.c_str(), &info) == 0 || errno != ENOENT)
    return fail(Errc::kUsage, "{}: its directory exists", run.id);
  DLRUN_TRY(check_folder_is_mounted(index, run));
  auto effect = finish_deletions(run.path.parent_path(), run.path.filename().string());
  if (::lstat(run.path.c_str(), &info) == 0)
    return fail(Errc::kUsage,
                "{}: its deletion was interrupted, and it was used before; it has its directory "
                "again. Repeat the command to delete it",
                run.id);
  if (effect.is_another_at_work)
    return fail(Errc::kUsage, "{}: another dlrun is deleting it", run.id);
  DLRUN_TRY(remember_as_deleted(index, run, ""));
  return std::move(effect.done);
}

FinishedDeletions finish_deletions(const fs::path& runs_dir, const std::string& only) {
  FinishedDeletions effect;
  const UniqueFd folder(::open(runs_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto names = folder.is_open() ? names_in(folder.get()) : Result<std::vector<std::string>>();
  if (!folder.is_open() || !names) return effect;
  for (const std::string& name : *names) {
    const auto before = name_before(name);
    if (before && (only.empty() || *before == only))
      finish_deletion(folder.get(), name, *before, effect);
  }
  return effect;
}

}  // namespace dlrun
