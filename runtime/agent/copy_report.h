#pragma once
// The report that `dlrun-agent stage` and `dlrun-agent collect` print for the rank's agent, which
// starts them.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dlrun::agent {

/// Staged data that the rank's agent must protect from other runs while its program runs.
struct StagedCopy {
  std::string lock;  ///< the lock file
  std::string note;  ///< the file that describes the staged data
  std::string hash;  ///< the hash of the note's text
};

struct CopyReport {
  std::int64_t file_count = 0, bytes = 0;  ///< copied by this process
  std::vector<StagedCopy> held{};          ///< the rank's agent locks these data
  std::vector<std::string> problems{};     ///< sentences about single files or folders
  std::string error{};                     ///< why the whole copy failed; empty: it did not fail

  /// Returns the report as one line of JSON, with the first 8 problems and the number of the
  /// others. Cuts each problem to 1,024 bytes, and the error to 4,096.
  [[nodiscard]] std::string line() const;
  /// Reads a line. A line that is not a report gives a report with an error.
  [[nodiscard]] static CopyReport of_line(std::string_view line);
};

}  // namespace dlrun::agent
