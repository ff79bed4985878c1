#pragma once
// Decides from a run's owner which operations on it are allowed. No other code decides that. In the
// comments of launcher/runs, "this user" is the user who runs dlrun.
//
// A run is foreign if another user owns its directory, a file in it that determines what dlrun
// does, or a symbolic link in its path. A link of root does not make a run foreign. If root runs
// dlrun, another user's run is foreign, too. dlrun shows a foreign run only from the run's files,
// and asks neither Slurm nor the slurmrestd of the run. dlrun does not cancel, resubmit, attach
// to or change the run, and does not add the run to an index. On the command line, only a path
// refers to a foreign run.

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.h"

namespace dlrun {

struct Owner {
  uid_t uid = 0;
  std::string name;  ///< the uid as text if the system has no name for it
};

/// Returns the user with this uid.
[[nodiscard]] Owner owner_of(uid_t uid);

/// Returns the other user who owns the run's directory, or a symbolic link (not root's) in its
/// path. Returns nullopt if there is no other user, or if the directory does not exist.
[[nodiscard]] std::optional<Owner> foreign_owner_of_path(const std::filesystem::path& run);

/// Returns the other user who makes the run foreign: the owner of the run's directory, of a link in
/// the run's path (not root's), or of a file that determines what dlrun does (journal, claim,
/// record, script and others). For a point of a sweep, also checks the directories and files of the
/// array and of the sweep. Returns nullopt for a run of this user.
[[nodiscard]] std::optional<Owner> foreign_owner(const std::filesystem::path& run);

/// Fails with kUsage for a foreign run. id: the run's name in the message. action: "cancel it".
[[nodiscard]] Result<> require_own(std::string_view id, const std::filesystem::path& run,
                                   std::string_view action);

/// Returns "of user kim; shown from its files alone, Slurm is not asked".
[[nodiscard]] std::string describe_foreign_run(const Owner& owner);

}  // namespace dlrun
