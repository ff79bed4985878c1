#pragma once
// Finds the log that the user has chosen.

#include <cstdint>
#include <filesystem>
#include <optional>

#include "launcher/runs/index.h"
#include "launcher/runs/log_file.h"
#include "launcher/runs/status.h"

namespace dlrun {

/// Opens the job's log or, if `rank` is set, the log of this rank in `attempt` (default: the latest
/// attempt). Fails with
/// kNotFound if the log does not exist; the message says whether there may be one later.
[[nodiscard]] Result<LogReader> open_log(RunInspector& inspector, const IndexEntry& run,
                                         std::optional<std::int64_t> rank,
                                         std::optional<std::int64_t> attempt);

}  // namespace dlrun
