#pragma once
// health.known_bad at submission: the job keeps off nodes that other runs found bad, and the user
// is told which.

#include <optional>
#include <string>
#include <string_view>

#include "cli/cli.h"
#include "launcher/plan/plan.h"

namespace dlrun {

/// Returns sbatch's --exclude for a job of script, and prints which nodes are kept off and why.
/// Returns nothing where known_bad is not given or no node is bad. A memory that cannot be read is
/// a warning: it must not stop a submission. cluster: -M of the job. has_slurm: false where Slurm
/// must not be asked which of the nodes exist.
[[nodiscard]] std::optional<std::string> exclude_known_bad(
    const Cli& cli, const std::optional<KnownBad>& known_bad, std::string_view script,
    const std::optional<std::string>& cluster, bool has_slurm);

/// Returns where the run at this path was told to remember bad nodes, by its plan.json.
[[nodiscard]] std::optional<KnownBad> known_bad_of_run(const std::filesystem::path& run);

}  // namespace dlrun
