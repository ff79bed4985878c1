#pragma once
// Deletes one run of this user (ownership.h), or only the run's diagnostics. Deletes nothing if a
// file of the run has changed after the DeletionCheck, because another process then uses the run.
// Renames the run's directory before the deletion, so that no job can start in it.

#include <functional>

#include "common/result.h"
#include "launcher/runs/deletable_run.h"
#include "launcher/runs/deletion_mark.h"
#include "launcher/runs/directory_tree.h"
#include "launcher/runs/index.h"
#include "launcher/runs/status.h"

namespace dlrun {

/// The parts of a run that a deletion removes.
enum class RunParts {
  kAll,  ///< the whole directory
  /// The output of the ranks and of the job, and what profilers and traces wrote. The checkpoints,
  /// the record, the code and files that dlrun does not know stay.
  kDiagnostics,
};

struct ExaminedRun {
  DirectoryIdentity identity;
  TreeSize size;  ///< the size of the parts to delete
};
/// Checks that dlrun may delete the directory run.path. Returns the identity of the directory and
/// the size of the parts. Fails with kNotFound if the directory does not exist. Fails with kUsage
///  - if its name is not one that dlrun gives to runs, or if run.path is a symbolic link;
///  - if it has no files of a run, or files of another run;
///  - if the run is another user's (ownership.h);
///  - for kAll, if another run is inside the directory.
[[nodiscard]] Result<ExaminedRun> examine_run(const IndexEntry& run, RunParts parts);

/// Returns the run's state, or fails with the reason why the run must stay. The check may write
/// into the run. If the run's files change while the check runs, delete_run() calls the check
/// again.
using DeletionCheck = std::function<Result<RunState>()>;

/// Deletes the parts of the run. kAll also removes the run from the index, and records the deletion
/// (deleted_runs.h). Fails and deletes nothing
///  - if another directory than `examined` is at run.path, or if the check fails;
///  - if the run starts or is submitted meanwhile, or if another dlrun is deleting the run;
///  - if the run is a search (sweep.ask) that may still add points;
///  - for kAll, if another run is inside the directory.
/// The result says how many files could not be deleted, and why the first of them could not; the
/// next finish_deletions() tries again. Also fails if the run was deleted, but the index or the
/// record of the deletion could not be written.
[[nodiscard]] Result<TreeDeletion> delete_run(const RunIndex& index, const IndexEntry& run,
                                              const DirectoryIdentity& examined, RunParts parts,
                                              const DeletionCheck& check);

/// Removes a run without a directory from the index, and records the deletion (deleted_runs.h).
/// First finishes the interrupted deletion of the run, if there is one, and returns the result of
/// that deletion. Fails with kUsage if the directory exists or may exist, or if another dlrun is
/// deleting the directory. Also fails with kUsage if the file system of the runs folder (the parent
/// of run.path) is perhaps not mounted: this folder does not exist, cannot be read, or is empty
/// although the index has several runs in it.
[[nodiscard]] Result<TreeDeletion> remove_run_without_directory(const RunIndex& index,
                                                                const IndexEntry& run);

}  // namespace dlrun
