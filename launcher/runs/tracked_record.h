#pragma once
// Sends a run's record for MLflow (RUN/track, see track.mlflow) from a login node: the values that
// the server does not have yet.

#include <string>
#include <vector>

#include "common/env.h"
#include "common/mlflow.h"
#include "common/result.h"
#include "launcher/runs/index.h"
#include "launcher/runs/status.h"

namespace dlrun {

/// The result for one run, or for one point of a sweep.
struct RunSyncReport {
  std::string run_id{};
  SyncReport report{};
};

/// Sends the run's record for MLflow; for a sweep, those of all its points. Skips points without
/// such a record. If lead was killed before it recorded the end, adds the end first. Fails with
/// kUsage for another user's run, with kInvalid if the run has no record, if it is not certain that
/// the run has ended, or if the token is not set, and with kUnavailable if Slurm does not answer.
/// If one point of a sweep cannot be sent, the point's report has the reason, and the other points
/// are sent.
[[nodiscard]] Result<std::vector<RunSyncReport>> sync_records(const Env& env,
                                                              RunInspector& inspector,
                                                              const IndexEntry& run);

}  // namespace dlrun
