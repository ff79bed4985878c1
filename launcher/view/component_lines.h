#pragma once
// Describes the components of a job for people.

#include <string>
#include <vector>

#include "launcher/spec/load.h"

namespace dlrun {

/// Returns one line about the allocation, and one about each component; none for a job with a
/// single program.
[[nodiscard]] std::vector<std::string> component_lines(const LoadedSpec& loaded);

}  // namespace dlrun
