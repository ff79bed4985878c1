#pragma once
// RUN on the command line: `last`, an id, a name, a Slurm job id, a path, or the unique start of an
// id; of a sweep's point RUN/NUMBER, a job id with its task (42_7), or a path. A run of another
// user has only its path.

#include <filesystem>
#include <optional>
#include <string_view>

#include "common/result.h"
#include "launcher/runs/index.h"

namespace dlrun {

/// The run in the directory that text names; nothing where that is no run's.
[[nodiscard]] std::optional<IndexEntry> run_at(std::string_view text,
                                               const std::filesystem::path& current_dir);

/// The one run that text means, tried in the order above; of several runs with a name or a job id
/// the newest. kNotFound when there is none, kUsage when a prefix fits several (they are listed).
[[nodiscard]] Result<IndexEntry> resolve_run(std::string_view text, const RunIndex& index,
                                             const std::filesystem::path& current_dir);

}  // namespace dlrun
