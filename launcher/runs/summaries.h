#pragma once
// A cache of the rows that `dlrun ls` shows of runs that have ended: the list of 10,000 runs then
// costs one file and one stat a run, not five files a run. It lies beside the user's index, is
// written by `ls` alone, and can be deleted at any time.

#include <sys/stat.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "launcher/runs/index.h"

namespace dlrun {

class RunSummaries {
 public:
  /// The columns of a run that has ended by its own record.
  struct Row {
    std::string job, state, matters;
  };

  /// Reads the cache beside the index. It is empty where its file is missing, damaged, or not the
  /// caller's.
  [[nodiscard]] static RunSummaries beside(const RunIndex& index);

  /// The row, if the run's events.jsonl is still the file that it was made of.
  [[nodiscard]] std::optional<Row> find(const IndexEntry& run, const struct stat& events) const;
  /// Remembers a row; one with a tab or a newline is not remembered.
  void keep(const IndexEntry& run, const struct stat& events, Row row);
  /// Writes the file when something was kept. A failure costs time later, nothing else.
  void save() const;

 private:
  explicit RunSummaries(std::filesystem::path file) : file_(std::move(file)) {}

  std::filesystem::path file_;
  std::string text_;  ///< the file
  /// A run's path -> its line in text_, from the stamp on.
  std::unordered_map<std::string_view, std::string_view> known_;
  std::map<std::string, std::string> kept_;  ///< path -> line, from the stamp on
};

}  // namespace dlrun
