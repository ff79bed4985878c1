#pragma once
// The runs of this user: one small file each, made with O_EXCL. No lock and no database, so that it
// holds on a network file system and under a hundred submissions at once. It can be made again from
// the run directories.

#include <filesystem>
#include <string>
#include <vector>

#include "common/env.h"
#include "common/result.h"

namespace dlrun {

struct IndexEntry {
  std::string id, name;
  std::filesystem::path path;
  std::string created;  ///< UTC, milliseconds
};

class RunIndex {
 public:
  /// directory is made when the first entry is added.
  explicit RunIndex(std::filesystem::path directory) : directory_(std::move(directory)) {}

  /// $XDG_STATE_HOME/dlrun/runs, else ~/.local/state/dlrun/runs. kNotFound without HOME.
  [[nodiscard]] static Result<RunIndex> of_user(const Env& env);

  /// Fails with kRefused when the id is there already, and with kInvalid for a run of another user.
  [[nodiscard]] Result<> add(const IndexEntry& entry) const;

  struct Listing {
    std::vector<IndexEntry> entries;   ///< newest first
    std::vector<std::string> damaged;  ///< one sentence for each entry that cannot be read
  };
  /// Entries whose directory is gone are among them. A missing index is an empty one.
  [[nodiscard]] Result<Listing> list() const;

  struct Rebuilt {
    std::size_t added = 0;
    std::vector<IndexEntry>
        foreign;  ///< runs of other users there, which enter no index; newest first
  };
  /// Adds the caller's runs in runs_dir that are not in the index.
  [[nodiscard]] Result<Rebuilt> rebuild(const std::filesystem::path& runs_dir) const;

  [[nodiscard]] const std::filesystem::path& directory() const { return directory_; }

 private:
  std::filesystem::path directory_;
};

}  // namespace dlrun
