#pragma once
// Stores the settings that sbatch gets for all jobs of a sweep, or of a chain (retry.chain), in
// submit.json.

#include <filesystem>

#include "common/result.h"
#include "launcher/submit/job.h"

namespace dlrun {

/// Writes submit.json of a sweep, or of a run with `retry.chain`: the settings for sbatch that all
/// its jobs share, without the secrets. dlrun reads them again to submit missing or additional
/// jobs.
[[nodiscard]] Result<> write_sbatch_settings(const std::filesystem::path& run,
                                             const SbatchSettings& settings);
/// Reads submit.json. Fails with kNotFound if there is none, and with kInvalid if it is damaged.
[[nodiscard]] Result<SbatchSettings> read_sbatch_settings(const std::filesystem::path& run);

}  // namespace dlrun
