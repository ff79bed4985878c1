#pragma once
// The index of this user's runs: one small file per run, created with O_EXCL. It uses neither locks
// nor a database, so it works on a network file system and with a hundred submissions at the same
// time. It can be rebuilt from the run directories.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/env.h"
#include "common/result.h"

namespace dlrun {

/// One run in the index.
struct IndexEntry {
  std::string id, name;
  std::filesystem::path path;
  std::string created;  ///< UTC, with milliseconds
};

class RunIndex {
 public:
  /// Uses the index in directory, which is created when the first entry is added.
  explicit RunIndex(std::filesystem::path directory) : directory_(std::move(directory)) {}

  /// Returns the user's index in $XDG_STATE_HOME/dlrun/runs, else in ~/.local/state/dlrun/runs.
  /// Fails with kNotFound if HOME is needed and not set.
  [[nodiscard]] static Result<RunIndex> of_user(const Env& env);

  /// Adds an entry. Fails with kRefused if the id exists already, and with kInvalid for a run of
  /// another user.
  [[nodiscard]] Result<> add(const IndexEntry& entry) const;

  /// Returns the entry of that id; nullopt if there is none or it is damaged.
  [[nodiscard]] std::optional<IndexEntry> find(const std::string& id) const;
  /// Removes the entry of that id. Does nothing if there is none. Fails with kIo if the entry
  /// cannot be removed.
  [[nodiscard]] Result<> remove(const std::string& id) const;

  struct Listing {
    std::vector<IndexEntry> entries;   ///< newest first
    std::vector<std::string> damaged;  ///< one sentence for each entry that cannot be read
  };
  /// Returns all entries, including those whose directory is gone. A missing index counts as empty.
  [[nodiscard]] Result<Listing> list() const;

  struct Additions {
    std::size_t added_count = 0;
    /// Runs of other users in the folder, which are not added; newest first.
    std::vector<IndexEntry> foreign;
  };
  /// Adds this user's runs in runs_dir that are missing in the index. Skips directories with names
  /// that dlrun never gives to runs: names with other characters than letters, digits, '.', '_' and
  /// '-', names that begin with '.' or '-', and names that are too long. Fails with kNotFound if
  /// runs_dir cannot be listed, with kIo if the listing breaks off, and as add() does.
  [[nodiscard]] Result<Additions> add_missing_runs(const std::filesystem::path& runs_dir) const;

  [[nodiscard]] const std::filesystem::path& directory() const { return directory_; }

 private:
  std::filesystem::path directory_;
};

}  // namespace dlrun
