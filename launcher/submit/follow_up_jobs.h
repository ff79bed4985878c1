#pragma once
// Submits the follow-up jobs of a run: with retry.chain, all jobs of the run after the first one.

#include <vector>

#include "launcher/runs/journal.h"
#include "launcher/runs/run_directory.h"
#include "launcher/submit/job.h"
#include "launcher/submit/reporter.h"

namespace dlrun {

/// The follow-up jobs that Slurm has accepted for a run.
struct FollowUpJobs {
  std::vector<Submission> submissions;  ///< in order
  bool is_interrupted = false;          ///< Ctrl-C arrived; later jobs were not submitted
};

/// Submits those of the run's follow-up jobs that Slurm does not have yet. Each job waits for the
/// end of the job before it. first: the journal of the run's first job, which Slurm has. settings:
/// those of the first job. If Slurm refuses a job, or if it is unknown whether Slurm has a job,
/// warns and submits no further job: the run then has fewer jobs.
[[nodiscard]] FollowUpJobs submit_follow_ups(const Context& context, Reporter& reporter,
                                             Executor& executor, const RunDirectory& run,
                                             const Submission& first,
                                             const SbatchSettings& settings);

/// Submits the missing follow-up jobs of a run whose submission was interrupted. The settings come
/// from the run's submit.json. Does nothing if the run is a single job.
[[nodiscard]] Result<FollowUpJobs> continue_follow_ups(const Context& context, Reporter& reporter,
                                                       Executor& executor, const RunDirectory& run,
                                                       const Submission& first);

}  // namespace dlrun
