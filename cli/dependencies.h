#pragma once
// `after`: the names of runs become what sbatch waits for.

#include <optional>
#include <string>

#include "cli/cli.h"
#include "launcher/plan/plan.h"
#include "launcher/runs/status.h"

namespace dlrun {

/// The value for sbatch's --dependency; nothing where there is nothing to wait for (any more), or
/// where the script has it all. A run that is over needs no job: what it ended with decides. Runs
/// that cannot be found, that ended otherwise than asked, or that Slurm cannot wait for are printed
/// with their place, and the Error then has no message. edited: of a script its own --dependency,
/// "" for none, in place of the spec's job ids.
[[nodiscard]] Result<std::optional<std::string>> dependency_of(
    const Cli& cli, RunInspector& inspector, const LoadedSpec& loaded, const LaunchPlan& plan,
    const std::optional<std::string>& edited = std::nullopt);

/// The runs that `after` names become their directories, in the spec and in the plan, so that what
/// is recorded means the same runs when `last` and a name mean others. Names that mean none stay:
/// dependency_of() tells of them.
void pin_runs(const Cli& cli, LoadedSpec& loaded, LaunchPlan& plan);

}  // namespace dlrun
