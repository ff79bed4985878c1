#pragma once
// Stores the settings of a sweep for sbatch in its submit.json.

#include <filesystem>

#include "common/result.h"
#include "launcher/submit/job.h"

namespace dlrun {

/// Writes a sweep's submit.json: the settings for sbatch that all its arrays share, without the
/// secrets. submit_missing() reads them when it submits the missing arrays.
[[nodiscard]] Result<> write_sbatch_settings(const std::filesystem::path& sweep,
                                             const SbatchSettings& settings);
/// Reads a sweep's submit.json. Fails with kInvalid if it is damaged.
[[nodiscard]] Result<SbatchSettings> read_sbatch_settings(const std::filesystem::path& sweep);

}  // namespace dlrun
