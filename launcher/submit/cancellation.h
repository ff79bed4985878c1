#pragma once
// Ends the jobs of a run.

#include <optional>
#include <string>
#include <vector>

#include "launcher/runs/status.h"

namespace dlrun {

/// The effect of a cancellation.
struct Cancelled {
  std::vector<std::string> jobs;  ///< the jobs that were cancelled; one, or a sweep's arrays
  bool is_local = false;          ///< the job ran on this machine
  std::string remark;             ///< why there was nothing to cancel; empty if a job was cancelled
  std::optional<Error> failure;   ///< why the next of several jobs could not be cancelled
};

/// Cancels the run's job. For a sweep, cancels every array as a whole, and the jobs of points that
/// were submitted again. Writes a mark into the cancelled runs, because Slurm soon forgets jobs
/// that never started.
[[nodiscard]] Result<Cancelled> cancel_run(RunInspector& inspector, const IndexEntry& run);

}  // namespace dlrun
