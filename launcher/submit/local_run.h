#pragma once
// Runs a job on this machine, without Slurm. Lead runs in the foreground and starts the
// ranks.

#include "launcher/executors/foreground.h"
#include "launcher/runs/provenance.h"
#include "launcher/runs/run_directory.h"
#include "launcher/submit/job.h"

namespace dlrun {

/// A run on this machine that has ended.
struct LocalRun {
  RunDirectory run;
  ForegroundEnd end;
};

/// Fetches the job's downloads, records the run and runs it to its end. The job must have passed
/// check_job(). prints_to_stderr: the ranks' output goes to standard error, not to standard output.
[[nodiscard]] Result<LocalRun> run_here(const Context& context, Reporter& reporter, const Job& job,
                                        Provenance& provenance, bool prints_to_stderr);

}  // namespace dlrun
