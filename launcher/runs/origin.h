#pragma once
// What the leader wrote of a run whose script was submitted by hand: such a run has no submission.json.

#include <filesystem>
#include <optional>
#include <string>

namespace dlrun {

struct Origin {
  std::string name;
  std::string log;  ///< the job's output file; may be empty
};
/// Nothing for every other run.
[[nodiscard]] std::optional<Origin> read_origin(const std::filesystem::path& run);

/// The name of the run in this directory: as its leader or its id says it.
[[nodiscard]] std::string name_of_run(const std::filesystem::path& run);

}  // namespace dlrun
