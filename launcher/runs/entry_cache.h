#pragma once
// Caches the entries of the user's index in one file, so that listing 10,000 runs opens one file
// instead of 10,000. The file is in the index's folder under a name that no run has. It can be
// deleted at any time.

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "launcher/runs/index.h"

namespace dlrun {

class EntryCache {
 public:
  /// Reads the cache of the index in directory. The cache is empty if its file is missing, damaged
  /// or not owned by this user.
  explicit EntryCache(const std::filesystem::path& directory);

  /// Returns the cached entry of the run `id`, provided that the entry's file still has this inode;
  /// nullopt otherwise. An entry's file is written once and never changed.
  [[nodiscard]] std::optional<IndexEntry> find(std::string_view id, ino_t inode);
  /// Adds an entry that was read from its file. Ignores entries with a tab or a line break.
  void add(const IndexEntry& entry, ino_t inode);
  /// Writes the entries that find() returned or add() got, and drops all others. So before save(),
  /// call find() for every entry of the index, and add() for every entry that find() does not
  /// return. Writes nothing if add() got only a few entries.
  void save() const;

  /// Deletes the file of the cache. Call it after runs were added to the index again
  /// (add_missing_runs()): the new file of an entry may have the inode number of the old one, and
  /// the cache then returns the old path.
  static void delete_file(const std::filesystem::path& directory);

 private:
  std::filesystem::path file_;
  std::string text_;  ///< the text of the file
  struct Line {
    std::string_view fields;  ///< the rest of the line, behind the id; starts with the inode
    bool is_used = false;     ///< find() has returned the entry of the line
  };
  std::unordered_map<std::string_view, Line> known_;  ///< by the run's id
  std::string added_;  ///< the lines of the entries that add() has received
  std::size_t added_count_ = 0;
};

}  // namespace dlrun
