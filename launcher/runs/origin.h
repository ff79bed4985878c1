#pragma once
// The name of a run whose script was submitted by hand, as the leader wrote it down: such a run has
// no submission.json.

#include <filesystem>
#include <string>

namespace dlrun {

/// The name of the run in this directory: as its leader or its id says it.
[[nodiscard]] std::string name_of_run(const std::filesystem::path& run);

}  // namespace dlrun
