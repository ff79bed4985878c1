#pragma once
// Translates the spec's `after` (names of runs) into sbatch's --dependency.

#include <optional>
#include <string>

#include "launcher/plan/plan.h"
#include "launcher/runs/status.h"
#include "launcher/submit/context.h"
#include "launcher/submit/reporter.h"

namespace dlrun {

/// Returns the value for sbatch's --dependency. Returns nothing if the job waits for no run, if all
/// runs have already ended as asked, or if the script itself names every job.
///
/// Fails with each problem and its place for a run that cannot be found, that ended otherwise than
/// asked, or that Slurm cannot wait for.
///
/// edited: the --dependency in a script edited by hand ("" if it has none); it replaces the job ids
/// of the spec.
[[nodiscard]] Result<std::optional<std::string>> dependency_of(
    const Context& context, Reporter& reporter, RunInspector& inspector, const LoadedSpec& loaded,
    const LaunchPlan& plan, const std::optional<std::string>& edited = std::nullopt);

/// Replaces the names of runs in `after` by the paths of the runs, in the spec and in the plan. The
/// record then keeps its meaning when `last` or a name comes to mean another run. Names that match
/// no run stay; dependency_of() reports them.
void pin_runs(const Context& context, LoadedSpec& loaded, LaunchPlan& plan);

}  // namespace dlrun
