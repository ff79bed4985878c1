#pragma once
// Submits a recorded run to Slurm once, even if Slurm's answer is lost.

#include <filesystem>

#include "common/interrupt.h"
#include "launcher/executors/executor.h"
#include "launcher/runs/journal.h"
#include "launcher/runs/run_directory.h"
#include "launcher/submit/job.h"

namespace dlrun {

/// Submits the run once: records the intent in the run's journal, calls sbatch or slurmrestd, and
/// records the job.
///
/// If the answer is lost, asks the controller for a job with the token. If the controller knows no
/// such job, submits again, once and with the same token. If the first call did create a job, Slurm
/// then has two jobs, and only the job that claims the run first starts the ranks.
///
/// After a Ctrl-C during sbatch, asks the controller for the job, but does not submit again. If
/// Slurm has the job, returns the submission; the caller learns of the Ctrl-C from `interrupt`.
///
/// token: the token of the submission; empty: a new one. A follow-up job of a chain has a journal
/// of its own, in follow_up_path(), and shares the run's secrets. Fails with Slurm's error if Slurm
/// does not have the job, and with kUnavailable or kInterrupted if it is unknown whether Slurm has
/// the job.
[[nodiscard]] Result<Submission> submit_once(const Context& context, const RunDirectory& run,
                                             const SbatchSettings& settings, Executor& executor,
                                             const Interrupt& interrupt,
                                             const std::string& token = {});

}  // namespace dlrun
