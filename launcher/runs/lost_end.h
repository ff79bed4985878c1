#pragma once
// The end of a run on this machine whose leader was killed: nobody else will write it.

#include <filesystem>
#include <string_view>

#include "common/result.h"
#include "launcher/runs/events.h"

namespace dlrun {

/// Appends `ended`, state failed, to the run's record where it has no end yet, and returns the
/// record as it is then. Of several who notice one writes; what its leader wrote at last counts
/// more. To be called only when the leader is gone for good.
[[nodiscard]] Result<RunRecord> write_lost_end(const std::filesystem::path& run, int code,
                                               std::string_view message);

}  // namespace dlrun
