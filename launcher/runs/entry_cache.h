#pragma once
// The entries of the user's index in one file, so that a list of 10,000 runs opens one file and not
// 10,000. It lies in the index's folder, under a name that is no run's, and can be deleted at any
// time.

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "launcher/runs/index.h"

namespace dlrun {

class EntryCache {
 public:
  /// Reads the cache of the index in directory. The cache is empty where its file is missing,
  /// damaged or not the caller's.
  explicit EntryCache(const std::filesystem::path& directory);

  /// The entry of that name, if its file is still the one that was read: an entry's file is written
  /// once.
  [[nodiscard]] std::optional<IndexEntry> find(std::string_view name, ino_t inode);
  /// Remembers an entry that was read from its file.
  void keep(const IndexEntry& entry, ino_t inode);
  /// Writes the file where much was not in it. entries: all of the index.
  void save() const;

  /// Forgets everything: entries were made anew under names that were there before.
  static void forget(const std::filesystem::path& directory);

 private:
  std::filesystem::path file_;
  std::string text_;  ///< the file
  std::unordered_map<std::string_view, std::string_view>
      known_;                 ///< name -> its line, from the inode on
  std::string used_, added_;  ///< whole lines
  std::size_t added_count_ = 0;
};

}  // namespace dlrun
