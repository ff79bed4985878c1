#pragma once
// For runs on this machine: writes the end that lead could not write because lead was killed.

#include <filesystem>
#include <string_view>

#include "common/result.h"
#include "launcher/runs/run_record.h"

namespace dlrun {

/// Appends an event `ended` with the state `failed` to the run's record, unless the record has an
/// end. Returns the resulting record. If several processes notice that lead is gone, only one of
/// them writes. Call this only when lead is certainly gone. code, message: the exit code and the
/// sentence of the event.
[[nodiscard]] Result<RunRecord> write_lost_end(const std::filesystem::path& run, int code,
                                               std::string_view message);

}  // namespace dlrun
