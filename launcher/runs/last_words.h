#pragma once
// What a failed run's program said at last: as a rule the reason.

#include <filesystem>
#include <string>
#include <vector>

#include "launcher/runs/status.h"

namespace dlrun {

/// The last lines, three at most, that the first failed rank printed, or the job's script where no
/// rank was started; safe to print. Nothing of a run that has not failed, of a sweep, and where
/// there is no such log.
[[nodiscard]] std::vector<std::string> last_words(const std::filesystem::path& run,
                                                  const RunStatus& status);

}  // namespace dlrun
