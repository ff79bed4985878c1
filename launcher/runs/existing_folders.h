#pragma once
// Tells which of many run directories still exist. Caches the listings of their parent folders.

#include <filesystem>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace dlrun {

/// A cache of folder listings. Lists each parent folder once and remembers the names in it: for ten
/// thousand runs in one folder, one listing takes less time than ten thousand system calls.
class ExistingFolders {
 public:
  /// Returns true if the absolute path exists. Does not notice changes of a parent folder after the
  /// first call for a path in this folder.
  [[nodiscard]] bool has(const std::filesystem::path& folder);

 private:
  /// The names in a folder; nullopt if the folder cannot be listed.
  using Names = std::optional<std::unordered_set<std::string>>;
  std::unordered_map<std::string, Names> names_;
};

}  // namespace dlrun
