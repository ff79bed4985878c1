#pragma once
// Translates the spec's `after` (runs and ids of Slurm jobs) into sbatch's --dependency.

#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/plan.h"
#include "launcher/runs/status.h"
#include "launcher/submit/context.h"
#include "launcher/submit/reporter.h"

namespace dlrun {

/// A run or the id of a Slurm job in `after`. Describes the run as it is at the submission.
struct PriorRun {
  std::string id;         ///< the id of the run; empty for the id of a Slurm job
  std::string condition;  ///< "afterok:12"; empty if the run has already ended as required
  RunState end = RunState::kUnknown;  ///< how the run has ended; kUnknown if there is a condition
  [[nodiscard]] bool operator==(const PriorRun& other) const = default;
};

/// The runs and jobs that a job waits for.
struct Dependencies {
  /// The value for sbatch's --dependency. nullopt if the job waits for no run, if all runs have
  /// already ended as required, or if `after` has only job ids, because the script then already has
  /// the --dependency.
  std::optional<std::string> option;
  std::vector<PriorRun> runs;  ///< each once
};

/// Looks up the runs in `after`.
///
/// Fails with kInvalid if a run cannot be found, belongs to another user or did not end as
/// required, or if Slurm cannot wait for it. The error holds each problem with its place in the
/// spec. Also fails with kInvalid if `after` has runs and dependency_of_given_script has a `?`:
/// sbatch combines all dependencies either with `?` (one of them is enough) or with `,` (all).
///
/// dependency_of_given_script: the --dependency in a script that this submission did not render,
/// and that may have been edited ("" if it has none); it replaces the job ids of the spec. nullopt:
/// the job's script was rendered from the spec.
[[nodiscard]] Result<Dependencies> dependency_of(
    const Context& context, Reporter& reporter, RunInspector& inspector, const LoadedSpec& loaded,
    const LaunchPlan& plan,
    const std::optional<std::string>& dependency_of_given_script = std::nullopt);

/// Returns one text for each condition, such as "afterok:12 (train-20261127-170622-6138)", and one
/// text for the runs that have already ended: "train-20261127-170622-6138 has completed". This text
/// starts with "for nothing: " if there is no condition.
[[nodiscard]] std::vector<std::string> waits_texts(const std::vector<PriorRun>& runs);

/// Replaces the names of runs in `after` by the paths of the runs, in the spec and in the plan. The
/// record then refers to these runs even if `last` or a name later refers to another run. Names
/// that match no run stay unchanged; dependency_of() reports them.
void pin_runs(const Context& context, LoadedSpec& loaded, LaunchPlan& plan);

}  // namespace dlrun
