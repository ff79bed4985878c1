#pragma once
// Cancels the jobs of a run.

#include <optional>
#include <string>
#include <vector>

#include "launcher/runs/status.h"

namespace dlrun {

/// The effect of a cancellation.
struct Cancelled {
  /// The jobs that were cancelled: one job; or the arrays of a sweep and the jobs of its points
  /// that were submitted again; or the jobs of a chain (retry.chain).
  std::vector<std::string> jobs;
  bool is_local = false;     ///< the job ran on this machine
  bool was_running = false;  ///< a cancelled job was running, so its processes must still end
  std::string remark;        ///< why there was nothing to cancel; empty if a job was cancelled
  /// Why one of several jobs could not be cancelled. dlrun then cancelled no further job.
  std::optional<Error> failure;
};

/// Cancels the run's job, or all jobs of its chain (retry.chain), even if the run is over and only
/// later jobs are still queued. For a sweep, cancels each array that has unfinished points, and the
/// jobs of points that were submitted again. Also marks the cancelled runs (cancel_mark.h), because
/// Slurm soon forgets a job that never started.
/// Fails with kUsage for a point whose job also runs other points (sweep.pack), and with
/// kUnavailable or kNotFound if the id of the job is unknown.
[[nodiscard]] Result<Cancelled> cancel_run(RunInspector& inspector, const IndexEntry& run);

}  // namespace dlrun
