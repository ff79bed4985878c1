#pragma once
// Opens the directory of a run that dlrun may delete, and visits the directories inside it that
// belong to the run.

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "common/files.h"
#include "common/result.h"

namespace dlrun {

/// Identifies a directory, even if it is renamed and another directory gets its old path.
struct DirectoryIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const DirectoryIdentity&) const = default;
};

/// Returns the identity of an open or listed directory.
[[nodiscard]] DirectoryIdentity identity_of(const struct stat& info);

/// Returns the identity of an entry of the folder; nullopt if it does not exist.
[[nodiscard]] std::optional<DirectoryIdentity> identity_in(int folder, const std::string& name);

/// A run's directory and the folder around it, both held open.
struct OpenedRun {
  UniqueFd parent, run;
  std::string name;
  DirectoryIdentity identity;
};

/// Opens the directory of a run. Fails with kNotFound if the directory does not exist, and with kIo
/// if it cannot be opened. Fails with kUsage
/// - if the path is a symbolic link, or is replaced meanwhile;
/// - if the run is another user's (ownership.h);
/// - if the directory does not have a name that dlrun gives to runs;
/// - if the directory has no files of a run, or its files do not show that they belong to this run.
[[nodiscard]] Result<OpenedRun> open_deletable_run(const std::filesystem::path& run);

/// Returns the text of a file in the directory. Returns "" if there is no regular file of this
/// name, if another user owns it, if it is larger than the limit, or if it cannot be opened.
[[nodiscard]] std::string read_own_file(int directory, const char* name, std::size_t limit_bytes);

/// Returns true if the directory is that of a sweep.
[[nodiscard]] bool has_sweep_record(int run);

/// Receives a directory, and its path from the run's directory: "", "array-0" or "array-0/7".
using RunVisitor = std::function<Result<>(int directory, const std::string& where)>;

/// Calls visit for the run's directory, and for the arrays and points of a sweep. Stops at the
/// first failure. Skips an array or a point whose directory cannot be opened. mounted: called
/// instead of visit for an array or a point on which something is mounted; empty: such a directory
/// is visited like any other.
[[nodiscard]] Result<> visit_directories_of_run(
    int run, const RunVisitor& visit, const std::function<void(const std::string&)>& mounted = {});

}  // namespace dlrun
