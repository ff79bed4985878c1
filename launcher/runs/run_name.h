#pragma once
// The name of a run. A run whose script was submitted by hand has no submission.json, so lead
// records its name in the file `origin`.

#include <filesystem>
#include <string>

namespace dlrun {

/// Returns the run's name: the one that lead recorded, else the one in the run's id.
[[nodiscard]] std::string name_of_run(const std::filesystem::path& run);

}  // namespace dlrun
