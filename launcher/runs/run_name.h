#pragma once
// The name of a run whose script was submitted by hand. Lead records the name, since such a
// run has no submission.json.

#include <filesystem>
#include <string>

namespace dlrun {

/// Returns the run's name: the one that lead recorded, else the one in its id.
[[nodiscard]] std::string name_of_run(const std::filesystem::path& run);

}  // namespace dlrun
