#pragma once
// Caches the rows that `dlrun ls` shows for ended runs: instead of reading five files of each run,
// `ls` then reads the cache, and calls stat once for each run that it shows. The cache is one file
// in the folder of the user's index. Only `ls` writes this file, which can be deleted at any time.
// entry_cache.h is the other cache of `ls`.

#include <sys/stat.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "launcher/runs/index.h"
#include "launcher/runs/status.h"

namespace dlrun {

class SummaryCache {
 public:
  /// The columns of a run that has ended according to its own record.
  struct Row {
    std::string job;
    RunState state = RunState::kUnknown;
    std::string summary;
  };

  /// Reads the cache in the folder of the index. The cache is empty if its file is missing,
  /// damaged, or not owned by this user.
  [[nodiscard]] static SummaryCache in(const RunIndex& index);

  /// Returns the row if the run's events.jsonl is still the file that the row was made from;
  /// nullopt otherwise.
  [[nodiscard]] std::optional<Row> find(const IndexEntry& run, const struct stat& events) const;
  /// Adds a row. Ignores a row if the run's path or a text of the row has a tab or a newline.
  void add(const IndexEntry& run, const struct stat& events, Row row);
  /// Writes the file if a row was added, without the rows of runs whose directory is gone. Ignores
  /// errors; they only cost time later.
  void save() const;

 private:
  explicit SummaryCache(std::filesystem::path file) : file_(std::move(file)) {}

  std::filesystem::path file_;
  std::string text_;  ///< the text of the file
  /// Maps a run's path to the rest of its line in text_, which starts with the stamp: inode,
  /// size and modification time of events.jsonl.
  std::unordered_map<std::string_view, std::string_view> known_;
  /// Added rows: a run's path, and its line from the stamp on.
  std::map<std::string, std::string> added_;
};

}  // namespace dlrun
