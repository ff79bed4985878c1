#pragma once
// Plans, records and submits a spec that is a sweep.

#include <optional>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "cli/prepare.h"
#include "cli/submit_job.h"
#include "launcher/plan/sweep.h"
#include "launcher/runs/sweep.h"

namespace dlrun {

/// Plans all points. Fails with an empty message after printing all problems.
[[nodiscard]] Result<SweepPlan> prepare_sweep(const Cli& cli, const Prepared& prepared,
                                              std::size_t max_array_size);

/// Returns one point as a single experiment, for --point. Fails with kNotFound if the sweep has no
/// such point, with kUsage if the spec is no sweep.
[[nodiscard]] Result<Prepared> prepare_point(const Cli& cli, Prepared prepared, std::size_t number);

/// Returns "6 points, 2 at once; at most 2.7 GPU-hours altogether".
[[nodiscard]] std::string size_text(const SweepPlan& sweep);

/// Returns an array's #SBATCH options without the number of tasks. Slurm gives the same verdict on
/// arrays with equal options.
[[nodiscard]] std::string options_of_array(const std::string& script);

/// Records the parent, the arrays and the points, and submits each array once. Returns the exit
/// code. If sbatch --test-only refuses one array, nothing is recorded or submitted. If a later
/// sbatch refuses, the arrays before it stay queued, and a message says so and how to continue.
[[nodiscard]] Result<int> submit_sweep(const Cli& cli, const Prepared& prepared,
                                       const SubmitPlan& submit, Provenance& provenance,
                                       RunInspector& inspector, const Follow& follow);

/// Submits the points that Slurm does not have: never sent, interrupted, or refused. Fails with
/// kUsage if there are none.
[[nodiscard]] Result<int> submit_missing(const Cli& cli, const IndexEntry& run,
                                         RunInspector& inspector, const Follow& follow);

/// Returns the runs behind a command's RUN: for a sweep the current run of each point, otherwise
/// the run itself.
[[nodiscard]] Result<std::vector<IndexEntry>> runs_of(const IndexEntry& run);

}  // namespace dlrun
