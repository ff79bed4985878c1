#pragma once
// The one place that decides by a run's owner what may be done with the run.
//
// A run whose directory, or a file in it that decides something, belongs to another user is
// foreign. Root is a caller like any other: a run of another user is foreign to root. A foreign run
// is shown from its files alone: nothing is asked of Slurm or of a server that it names, nothing of
// it is cancelled, submitted again, attached to or written, it enters no index, and only a path
// means it.

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.h"

namespace dlrun {

struct Owner {
  uid_t uid = 0;
  std::string name;  ///< the number where the system knows no name
};

/// The user with that number.
[[nodiscard]] Owner owner_of(uid_t uid);

/// The other user who owns the run's directory, or the link by which path names it; nothing for a
/// directory of the caller, and for one that is not there. One or two system calls.
[[nodiscard]] std::optional<Owner> foreign_folder(const std::filesystem::path& run);

/// The other user who owns the run's directory or a file in it that decides: its journal, claim,
/// record, script and their like; of a sweep's point the array's and the sweep's, too. Nothing for
/// a run of the caller.
[[nodiscard]] std::optional<Owner> foreign_owner(const std::filesystem::path& run);

/// Fails with kUsage for a foreign run. id: as messages name it. verb: "cancelled".
[[nodiscard]] Result<> require_own(std::string_view id, const std::filesystem::path& run,
                                   std::string_view verb);

/// "of user kim; shown from its files alone, Slurm is not asked"
[[nodiscard]] std::string describe(const Owner& owner);

}  // namespace dlrun
