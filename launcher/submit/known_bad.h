#pragma once
// health.known_bad at submission: excludes nodes that earlier runs found to be bad, and reports
// them to the user.

#include <optional>
#include <string>
#include <string_view>

#include "launcher/plan/plan.h"
#include "launcher/submit/context.h"
#include "launcher/submit/reporter.h"

namespace dlrun {

/// Returns sbatch's --exclude for a job of `script`, and reports each excluded node with its
/// reason. Returns nullopt if `known_bad` is empty or no node is bad. A failure, such as an
/// unreadable list of bad nodes, is only a warning, because it must not stop a submission.
///
/// cluster: the job's --clusters (-M). has_slurm: false if Slurm must not be asked which of the
/// nodes exist.
[[nodiscard]] std::optional<std::string> exclude_known_bad(
    const Context& context, Reporter& reporter, const std::optional<KnownBad>& known_bad,
    std::string_view script, const std::optional<std::string>& cluster, bool has_slurm);

/// Returns the `known_bad` of the run's plan.json: the file in which the run records bad nodes.
/// Returns nullopt if the plan has none.
[[nodiscard]] std::optional<KnownBad> known_bad_of_run(const std::filesystem::path& run);

}  // namespace dlrun
