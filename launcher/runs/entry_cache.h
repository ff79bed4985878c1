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
  /// or not owned by the caller.
  explicit EntryCache(const std::filesystem::path& directory);

  /// Returns the cached entry of that name if its file still has the same inode; nullopt otherwise.
  /// An entry's file is written once and never changed.
  [[nodiscard]] std::optional<IndexEntry> find(std::string_view name, ino_t inode);
  /// Adds an entry that was read from its file.
  void add(const IndexEntry& entry, ino_t inode);
  /// Writes the cache, unless only a few entries had to be added. Call it after find() or add() for
  /// every entry of the index.
  void save() const;

  /// Deletes the cache. Call it after entries were created again: the cache may still have an old
  /// path for such a name.
  static void forget(const std::filesystem::path& directory);

 private:
  std::filesystem::path file_;
  std::string text_;  ///< the text of the file
  struct Line {
    std::string_view fields;  ///< the line after the name; starts with the inode
    bool is_used = false;     ///< find() has returned the entry of the line
  };
  std::unordered_map<std::string_view, Line> known_;  ///< by name
  std::string added_;  ///< the lines of the entries that add() has received
  std::size_t added_count_ = 0;
};

}  // namespace dlrun
