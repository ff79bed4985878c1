#pragma once
// Marks the directory of a run for deletion and renames it, so that nothing can start in it and
// an interrupted deletion can be finished.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.h"
#include "launcher/runs/deletable_run.h"
#include "launcher/runs/directory_tree.h"

namespace dlrun {

/// The mark of a deletion that is final, in the renamed directory.
inline constexpr const char* kFinalMark = ".deleted";

/// Returns a text that changes when the run is submitted, starts, restarts, ends, or is cancelled
/// or resubmitted; for a sweep, also when this happens to one of its points. run: the open
/// directory. Fails with kIo.
[[nodiscard]] Result<std::string> stamps_of(int run);

/// Returns the error about a run that was used after its state was checked.
[[nodiscard]] tl::unexpected<Error> used_meanwhile_error(const OpenedRun& opened);

/// Marks and renames the run's directory, and makes its deletion final. Returns the new name.
/// stamps: the text of stamps_of() when the run was checked. Fails and leaves the run as it is, if
/// another directory is at the run's path by now, or if the run was used after the check. Fails
/// with kIo if the mark cannot be written or the directory cannot be renamed.
[[nodiscard]] Result<std::string> rename_for_deletion(const OpenedRun& opened,
                                                      const std::string& stamps);

/// Deletes the content of a renamed directory and then the directory.
[[nodiscard]] TreeDeletion delete_renamed(int parent, const std::string& name, int directory);

/// The effect of finish_deletions().
struct FinishedDeletions {
  TreeDeletion done;                ///< the deleted and the undeleted files of all directories
  bool is_another_at_work = false;  ///< another process is deleting one of the directories
};

/// Deletes what interrupted deletions left in a runs folder. only: the id of one run; empty: all
/// runs. If a deletion was interrupted before it was final (deletion_mark.cc), and the run was used
/// after the deletion had checked it, gives the directory its old name instead. Touches only
/// directories of this user that a deletion has renamed.
[[nodiscard]] FinishedDeletions finish_deletions(const std::filesystem::path& runs_dir,
                                                 const std::string& only = {});

}  // namespace dlrun
