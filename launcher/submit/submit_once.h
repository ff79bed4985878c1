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
/// If the answer is lost, looks the token up at the controller. Submits again, once and with the
/// same token, only if the controller knows no job with it. If the first call has made a job after
/// all, there are two jobs, and only the job that claims the run first starts the ranks. After
/// Ctrl-C during sbatch, looks the token up, too, but does not submit again. If Slurm has the job,
/// returns it, and `interrupt` tells the caller about the Ctrl-C. token: the token of the
/// submission; empty: a new one. A follow-up job of a chain has a journal of its own, in
/// follow_up_path(), and shares the run's secrets. Fails with Slurm's error if Slurm does not have
/// the job, and with kUnavailable or kInterrupted if it is unknown whether Slurm has the job.
[[nodiscard]] Result<Submission> submit_once(const Context& context, const RunDirectory& run,
                                             const SbatchSettings& settings, Executor& executor,
                                             const Interrupt& interrupt,
                                             const std::string& token = {});

}  // namespace dlrun
