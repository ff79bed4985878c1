#pragma once
// What a command does with a spec that is a sweep.

#include <optional>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "cli/prepare.h"
#include "cli/submit_job.h"
#include "launcher/plan/sweep.h"
#include "launcher/runs/sweep.h"

namespace dlrun {

/// All points, planned. Everything that is wrong has been printed when this fails (with an empty
/// message).
[[nodiscard]] Result<SweepPlan> prepare_sweep(const Cli& cli, const Prepared& prepared,
                                              std::size_t max_array_size);

/// One point as the experiment that it is: for --point. Fails with kNotFound where the sweep has no
/// such point, kUsage where the spec is no sweep.
[[nodiscard]] Result<Prepared> prepare_point(const Cli& cli, Prepared prepared, std::size_t number);

/// "6 points, 2 at once; at most 2.7 GPU-hours"
[[nodiscard]] std::string size_text(const SweepPlan& sweep);

/// An array's #SBATCH words, but for how many tasks it has: Slurm judges arrays with the same ones
/// alike.
[[nodiscard]] std::string options_of_array(const std::string& script);

/// Records parent, arrays and points, and submits each array once. Returns the exit code. Where
/// sbatch --test-only refuses one of them nothing is recorded or sent; one that is refused later
/// ends it: what went before is queued, and it says so and how to go on.
[[nodiscard]] Result<int> submit_sweep(const Cli& cli, const Prepared& prepared,
                                       const SubmitPlan& submit, Provenance& provenance,
                                       RunInspector& inspector, const Follow& follow);

/// Submits the points that Slurm does not have: those that were never sent, whose submission was
/// interrupted, or that were refused. kUsage where there is none.
[[nodiscard]] Result<int> submit_missing(const Cli& cli, const IndexEntry& run,
                                         RunInspector& inspector, const Follow& follow);

/// The runs that stand for a command's RUN: a sweep's are its points' current ones, any other's is
/// itself.
[[nodiscard]] Result<std::vector<IndexEntry>> runs_of(const IndexEntry& run);

}  // namespace dlrun
