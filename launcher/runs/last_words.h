#pragma once
// Finds the last lines that a failed run's program printed. They usually show the reason.

#include <filesystem>
#include <string>
#include <vector>

#include "launcher/runs/status.h"

namespace dlrun {

/// Returns at most three printable lines from the end of the first failed rank's log. If no rank
/// was started, returns those of the job's error file (resources.error), or of the job's log.
/// Returns no line for a run that has not ended with a failure, for a sweep, and if there is no
/// such log.
[[nodiscard]] std::vector<std::string> last_words(const std::filesystem::path& run,
                                                  const RunStatus& status);

}  // namespace dlrun
