#pragma once
// The lines of `dlrun status` below the state of the run.

#include <string>
#include <vector>

#include "common/shown_data.h"
#include "launcher/runs/index.h"
#include "launcher/runs/status.h"

namespace dlrun {

/// Returns the lines. If the run has ended, leaves out the paths of logs and stacks that no longer
/// exist. Reads the last lines of the failed rank's log, and the files of the run's rehearsal.
/// waits: lines about the run's wait in the queue (waiting_lines()).
[[nodiscard]] LabelledLines status_lines(const IndexEntry& run, const RunStatus& status,
                                         const std::vector<std::string>& waits);

}  // namespace dlrun
