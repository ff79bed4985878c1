#pragma once
// The name of a run. It is a part of the id that dlrun gives to a run. If a script was submitted by
// hand, lead records the name in the file `origin`.

#include <filesystem>
#include <string>

namespace dlrun {

/// Returns the run's name: the one that lead recorded, else the one in the run's id.
[[nodiscard]] std::string name_of_run(const std::filesystem::path& run);

}  // namespace dlrun
