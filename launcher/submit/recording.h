#pragma once
// Creates a run's directory with the spec, the resolved spec, the plan and the script.

#include <string>

#include "launcher/plan/sweep_plan.h"
#include "launcher/runs/run_directory.h"
#include "launcher/submit/held_token.h"
#include "launcher/submit/job.h"

namespace dlrun {

/// Adds the arrays and points of `more` to the recorded sweep at `path`. Returns the index of the
/// first new array. Fails as read_sweep() does, and with kIo if a file cannot be written.
[[nodiscard]] Result<std::size_t> record_more_points(const std::filesystem::path& path,
                                                     const SweepPlan& more,
                                                     const std::vector<SecretValue>& secrets);

/// Creates the run's directory and adds the run to the index. Only warns if the index cannot be
/// written, because the run can be found by its path. After any other failure, removes the run.
///
/// The directory gets job.sh. If the job has a spec, the directory also gets spec.yaml,
/// resolved.yaml, plan.json and, with track.mlflow, parameters.json. For an edited script, these
/// files describe the spec as it was planned before anybody edited the script. A run that repeats
/// an earlier run gets copies of the earlier run's files, but not of its events and results.
///
/// token: gets the run's path before the index does; nullptr: the submission has no token.
[[nodiscard]] Result<RunDirectory> record_run(const Context& context, Reporter& reporter,
                                              const Job& job, HeldToken* token = nullptr);

/// Creates the directory of a sweep and adds the sweep to the index. The directory holds spec.yaml,
/// resolved.yaml, plan.json (of the first point) and sweep.json. Each array has a folder array-K
/// with the array's job.sh and a folder for each point. The folder of a point holds the point's
/// job.sh, resolved.yaml, submission.json, secrets and, with track.mlflow, parameters.json. All
/// files are flushed to the disk before this function returns.
[[nodiscard]] Result<RunDirectory> record_sweep(const Context& context, Reporter& reporter,
                                                const Experiment& experiment,
                                                const SweepPlan& sweep,
                                                const std::vector<SecretValue>& secrets,
                                                HeldToken* token = nullptr);

/// code.snapshot: copies the source tree into the run. Returns the folder in the copy where the job
/// starts. Deletes the run on failure.
[[nodiscard]] Result<std::string> copy_code_into_run(const Context& context,
                                                     const std::filesystem::path& code_dir,
                                                     const std::filesystem::path& runs_dir,
                                                     const RunDirectory& run);

}  // namespace dlrun
