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

/// Returns the value of sbatch's --exclude for a job of `script`: the bad nodes, and the nodes that
/// `script` itself excludes. Reports each excluded bad node with its reason. Returns nullopt if
/// `known_bad` is nullopt or no bad node is excluded. Does not exclude a bad node in the --nodelist
/// of `script`, and warns of it. A failure, such as an unreadable list of bad nodes, is only a
/// warning, because it must not stop a submission.
///
/// cluster: the job's --clusters (-M). asks_slurm: true asks Slurm which of the bad nodes exist,
/// because sbatch refuses to exclude a node that does not exist.
[[nodiscard]] std::optional<std::string> exclude_value_with_bad_nodes(
    const Context& context, Reporter& reporter, const std::optional<KnownBadSettings>& known_bad,
    std::string_view script, const std::optional<std::string>& cluster, bool asks_slurm);

/// Returns the `known_bad` of the run's plan.json: the file in which the run records bad nodes, and
/// how long it remembers them. Returns nullopt if the plan has none or cannot be read.
[[nodiscard]] std::optional<KnownBadSettings> known_bad_settings_of_run(
    const std::filesystem::path& run);

}  // namespace dlrun
