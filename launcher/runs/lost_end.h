#pragma once
// For runs of `dlrun run`: writes the end that lead could not write because it was killed.

#include <filesystem>
#include <string_view>

#include "common/result.h"
#include "launcher/runs/run_record.h"

namespace dlrun {

/// Appends `ended` with state failed to the run's record if the record has no end yet. Returns the
/// record after that. If several processes notice the lost lead, only one of them writes. An end
/// that lead wrote itself is kept. Call it only when lead is certainly gone. code, message: the
/// exit code and the sentence of the event.
[[nodiscard]] Result<RunRecord> write_lost_end(const std::filesystem::path& run, int code,
                                               std::string_view message);

}  // namespace dlrun
