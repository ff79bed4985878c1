#pragma once
// Records checked jobs and sweeps as runs, and submits each of them once. Submits earlier runs
// again.

#include <functional>
#include <optional>
#include <vector>

#include "launcher/runs/journal.h"
#include "launcher/runs/provenance.h"
#include "launcher/runs/run_directory.h"
#include "launcher/submit/checks.h"
#include "launcher/submit/held_token.h"
#include "launcher/submit/job.h"

namespace dlrun {

/// A submission that Slurm has accepted: one job, or the arrays of a sweep.
struct Submitted {
  /// For a sweep, the values that all its arrays share. Empty if an earlier call with the same
  /// token submitted the job. If only the missing points of a sweep were submitted, only `settings`
  /// is set.
  Job job;
  RunDirectory run;
  std::vector<Submission> submissions;  ///< one; for a sweep, one for each array that Slurm has
  std::vector<Submission> follow_ups;   ///< the later jobs of the run's chain (retry.chain)
  bool is_interrupted = false;          ///< Ctrl-C arrived; nothing was submitted after it
  /// The points of a sweep.
  struct Points {
    /// Number of points that this call was to submit. If `failure` is set, Slurm did not get all of
    /// them.
    std::size_t to_submit_count = 0;
    std::size_t all_count = 0;  ///< number of points of the sweep
    std::optional<std::int64_t> max_parallel;
    std::optional<SweepPlan> plan;  ///< set if the sweep is submitted for the first time
  };
  std::optional<Points> points;  ///< set for a sweep
  std::optional<Error> failure;  ///< why the sweep's other arrays were not submitted
};
/// Returns the ids of the jobs in `submissions`.
[[nodiscard]] std::vector<std::string> job_ids_of(const Submitted& submitted);

/// Returns the submission of an earlier call with this token. Returns nullopt if Slurm has no such
/// job; token.run() is then the run in which submit_job() continues, or empty. For a sweep, submits
/// the arrays that Slurm does not have; for a chain, continues its follow-up jobs. Fails with
/// kUnavailable if Slurm does not answer, and with kRefused and Slurm's reason if Slurm refused the
/// job.
[[nodiscard]] Result<std::optional<Submitted>> complete_earlier_submission(const Context& context,
                                                                           Reporter& reporter,
                                                                           RunInspector& inspector,
                                                                           HeldToken& token);

/// Called after Slurm has accepted the job, with the run.
using OnSubmitted = std::function<Result<>(const RunDirectory&)>;

/// Fetches the job's downloads, builds its environments, copies the agent beside the runs, records
/// the job as a run and submits it once; then submits the follow-up jobs of its chain. checked: the
/// result of check_job(). provenance: collects its facts in the background since the start of the
/// command. token: the token of another machine, after complete_earlier_submission() returned
/// nullopt; nullptr: the submission has no token.
[[nodiscard]] Result<Submitted> submit_job(const Context& context, Reporter& reporter,
                                           RunInspector& inspector, Job job, const Checked& checked,
                                           Provenance& provenance, HeldToken* token = nullptr,
                                           const OnSubmitted& on_submitted = {});

/// Submits a sweep: records the sweep, its arrays and its points, and submits each array once. If
/// `sbatch --test-only` refuses one of several arrays, nothing is recorded or submitted; a message
/// about nodes that are not available now is only a warning. If a later sbatch refuses an array,
/// the arrays before it stay queued, and `failure` explains how to continue.
[[nodiscard]] Result<Submitted> submit_sweep(const Context& context, Reporter& reporter,
                                             RunInspector& inspector, Job job, SweepPlan sweep,
                                             const Checked& checked, Provenance& provenance,
                                             HeldToken* token = nullptr);

/// Adds the planned points to a recorded sweep and submits their arrays. settings: those of the
/// sweep's first submission. Fails as record_more_points() and submit_once() do. After a failure of
/// submit_once(), the points stay part of the sweep, and submit_missing_points() submits them.
[[nodiscard]] Result<> submit_more_points(const Context& context, RunInspector& inspector,
                                          const RunDirectory& run, const SbatchSettings& settings,
                                          const SweepPlan& more);

/// Submits the points of a recorded sweep that Slurm does not have, because they were never sent or
/// were refused. Fails with kUsage if there are no such points, with kRefused if another dlrun is
/// submitting them, and with kUnavailable if it is unknown whether Slurm has one of the points.
[[nodiscard]] Result<Submitted> submit_missing_points(const Context& context, Reporter& reporter,
                                                      RunInspector& inspector,
                                                      const IndexEntry& run);

/// Submits the script of a run again as a new run, or the missing points of a sweep. run_argument:
/// the run or sweep as the user typed it. force: submits the run even if it has not ended. Without
/// force, fails with kUsage for a run that is pending or running, and with kUnavailable if it is
/// unknown whether Slurm has its job. Also fails with kUsage for a run that ran without Slurm, and
/// with kRefused if another dlrun is submitting the run. token: the token that another machine
/// sent; an earlier call with this token may have submitted the run already. nullptr: there is no
/// token.
[[nodiscard]] Result<Submitted> resubmit(const Context& context, Reporter& reporter,
                                         RunInspector& inspector, const std::string& run_argument,
                                         bool force, HeldToken* token = nullptr);

/// Returns the experiment of a recorded run if its script alone does not describe the whole job,
/// because the job waits for runs, has secrets, downloads files or needs an environment that dlrun
/// builds. Returns nullopt otherwise. For a sweep, returns the experiment of its first point.
/// has_secrets: the script lists secrets.
[[nodiscard]] Result<std::optional<Experiment>> recorded_experiment_if_needed(
    const Context& context, const std::filesystem::path& run, bool has_secrets);

/// Warns if the run's provenance.json could not be written. written: the result of
/// Provenance::write().
void warn_of_missing_provenance(Reporter& reporter, const Result<>& written);

/// Writes the run's provenance.json, and warns if that fails.
void write_provenance(Reporter& reporter, Provenance& provenance, const std::filesystem::path& run);

}  // namespace dlrun
