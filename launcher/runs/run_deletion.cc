// deletion_mark.cc explains how a deletion becomes final, and how an interrupted one is finished.

#include "launcher/runs/run_deletion.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "common/files.h"
#include "common/json_read.h"
#include "common/text.h"
#include "launcher/runs/deleted_runs.h"
#include "launcher/runs/diagnostic_files.h"
#include "launcher/runs/journal.h"
#include "launcher/runs/run_directory.h"

namespace dlrun {
namespace {

namespace fs = std::filesystem;

/// Locks a run's directory. Returns false if another process holds the lock, and true on a file
/// system without locks.
bool lock_directory(int directory) {
  return ::flock(directory, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

/// Fails with kUsage if a process holds the submission lock in the directory: it is submitting the
/// run.
Result<> check_not_being_submitted(int directory, const std::string&) {
  const UniqueFd lock(
      ::openat(directory, kSubmissionLockFile, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (lock.is_open() && ::flock(lock.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return fail(Errc::kUsage, "another dlrun is submitting it");
  return {};
}

/// The state that the check found, and the stamps of the run's files at that time.
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

/// Visits the files that RunParts::kDiagnostics covers.
Result<> visit_diagnostics_of_run(int run, const fs::path& path, const DiagnosticVisitor& visitor) {
  const std::string checkpoint_folder = checkpoint_folder_of(path);
  return visit_directories_of_run(
      run,
      [&](int directory, const std::string& where) {
        DiagnosticVisitor here = visitor;
        here.mounted = [&](const std::string& folder) {
          visitor.mounted(where.empty() ? folder : where + "/" + folder);
        };
        return visit_diagnostic_files(directory, checkpoint_folder, here);
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
  DLRUN_TRY(visit_diagnostics_of_run(run, path, visitor));
  return effect;
}

/// Fails with kUsage if the file system of the runs folder (the parent of run.path) is perhaps not
/// mounted: this folder does not exist, cannot be read, or is empty although the index has several
/// runs in it.
Result<> check_folder_is_mounted(const RunIndex& index, const IndexEntry& run) {
  const fs::path folder = run.path.parent_path();
  const UniqueFd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened.is_open() && errno != ENOENT)
    return fail(Errc::kUsage, "{}: the folder {} cannot be read ({}), so the run stays in the list",
                run.id, printable(folder.string()), errno_text(errno));
  if (!opened.is_open())
    return fail(
        Errc::kUsage,
        "{}: the folder {} is missing, too. Perhaps its file system is not mounted here, so the "
        "run stays in the list",
        run.id, printable(folder.string()));
  const auto names = names_in(opened.get());
  if (names && !names->empty()) return {};
  DLRUN_TRY_ASSIGN(const auto listing, index.list());
  const auto count =
      std::count_if(listing.entries.begin(), listing.entries.end(),
                    [&](const IndexEntry& one) { return one.path.parent_path() == folder; });
  if (count < 2) return {};
  return fail(
      Errc::kUsage,
      "{0}: the folder {1} is empty, although {2} runs of your list were in it. Perhaps its "
      "file system is not mounted here, so the run stays in the list. If you have deleted "
      "these runs by hand, make a file in the folder first: `touch {1}/deleted`",
      run.id, printable(folder.string()), count);
}

/// Returns true if the path is that of an array, a point or a follow-up job of the run itself.
bool is_array_point_or_follow_up(const std::string& where) {
  const auto names = split(where, '/');
  return (names.size() <= 2 && names[0].starts_with("array-") &&
          (names.size() == 1 || parse_int(names[1]).has_value())) ||
         (names.size() == 1 && names[0].starts_with("chain-"));
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
    const auto json = json_read::object_of(read_own_file(directory, "claim", kLimit));
    if (json && !json_read::text(*json, "job").empty() && json->contains("token")) return true;
  }
  const std::string name = where.substr(where.rfind('/') + 1);
  return name_of_id(name) != name &&
         (has("claim") || has("events.jsonl") || has("submission.json") || has("sweep.json"));
}

/// Measures the run. Fails with kUsage if another run is inside its directory.
Result<TreeSize> measure_if_no_inner_run(int run, const IndexEntry& entry) {
  std::string inner;
  const TreeSize size =
      measure_tree(run, [&](const std::string& where, int directory, const auto& names) {
        if (inner.empty() && !is_array_point_or_follow_up(where) &&
            is_another_run(directory, where, names))
          inner = where;
      });
  if (inner.empty()) return size;
  return fail(Errc::kUsage,
              "{}: another run is inside its directory; delete that run first: `dlrun rm {}`",
              entry.id, printable((entry.path / inner).string()));
}

/// Subtracts from `effect` the files that the deletion itself made: its mark and the submission
/// lock. effect.freed then equals the size of the run before the deletion.
void leave_out_files_of_deletion(TreeDeletion& effect, const TreeSize& made_by_deletion) {
  if (effect.undeleted_count > 0) return;  // these files may be among the undeleted ones
  effect.freed.files -= made_by_deletion.files;
  effect.freed.bytes -= made_by_deletion.bytes;
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
  DLRUN_TRY_ASSIGN(const auto opened, open_deletable_run(run.path));
  ExaminedRun examined;
  examined.identity = opened.identity;
  if (parts == RunParts::kAll) {
    DLRUN_TRY_ASSIGN(examined.size, measure_if_no_inner_run(opened.run.get(), run));
    return examined;
  }
  DiagnosticVisitor visitor;
  visitor.file = [&](int folder, const std::string& name) {
    examined.size += measure_entry(folder, name);
  };
  visitor.folder = [](int, const std::string&) {};
  visitor.mounted = [&](const std::string&) { ++examined.size.unread; };
  DLRUN_TRY(visit_diagnostics_of_run(opened.run.get(), run.path, visitor));
  return examined;
}

Result<TreeDeletion> delete_run(const RunIndex& index, const IndexEntry& run,
                                const DirectoryIdentity& examined, RunParts parts,
                                const DeletionCheck& check) {
  DLRUN_TRY_ASSIGN(const auto opened, open_deletable_run(run.path));
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
                    ? "its search (sweep.ask) still runs, or another dlrun is deleting it"
                    : "another dlrun is deleting it");
  }
  DLRUN_TRY_ASSIGN(const auto checked, check_until_unchanged(opened, check));
  if (auto checked_locks = visit_directories_of_run(opened.run.get(), check_not_being_submitted);
      !checked_locks)
    return within(run.id, checked_locks.error());
  // Takes the lock only after the check. If this process held the lock during the check, the check
  // would return the state "pending".
  DLRUN_TRY_ASSIGN(const auto lock, SubmissionLock::take_in(opened.run.get(), run.id));
  DLRUN_TRY_ASSIGN(const auto stamps, stamps_of(opened.run.get()));
  if (stamps != checked.stamps) return used_meanwhile_error(opened);
  if (parts == RunParts::kAll) DLRUN_TRY(measure_if_no_inner_run(opened.run.get(), run));
  if (parts == RunParts::kDiagnostics) return delete_diagnostics(opened.run.get(), run.path);
  DLRUN_TRY_ASSIGN(const auto renamed, rename_for_deletion(opened, checked.stamps));
  const auto remembered = remember_as_deleted(index, run, word(checked.state));
  TreeSize made_by_deletion = measure_entry(opened.run.get(), kFinalMark);
  made_by_deletion += measure_entry(opened.run.get(), kSubmissionLockFile);
  auto effect = delete_renamed(opened.parent.get(), renamed, opened.run.get());
  leave_out_files_of_deletion(effect, made_by_deletion);
  if (!remembered)
    return within(
        "the files are deleted, but the list of runs or the record of deleted runs could "
        "not be changed",
        remembered.error());
  return effect;
}

Result<TreeDeletion> remove_run_without_directory(const RunIndex& index, const IndexEntry& run) {
  struct stat info {};
  if (::lstat(run.path.c_str(), &info) == 0)
    return fail(Errc::kUsage, "{}: its directory exists", run.id);
  if (errno != ENOENT)
    return fail(Errc::kUsage, "{}: it is not known whether its directory {} exists: {}", run.id,
                printable(run.path.string()), errno_text(errno));
  DLRUN_TRY(check_folder_is_mounted(index, run));
  auto effect = finish_deletions(run.path.parent_path(), run.path.filename().string());
  if (::lstat(run.path.c_str(), &info) == 0)
    return fail(Errc::kUsage,
                "{}: an interrupted deletion of this run was undone, because the run was used "
                "meanwhile. Its directory exists again; repeat the command to delete the run",
                run.id);
  if (effect.is_another_at_work)
    return fail(Errc::kUsage, "{}: another dlrun is deleting it", run.id);
  DLRUN_TRY(remember_as_deleted(index, run, ""));
  return std::move(effect.done);
}

}  // namespace dlrun
