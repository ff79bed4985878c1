#pragma once
// A run's state as JSON for programs. cli/OUTPUT.md documents this JSON, whose fields keep their
// names and meanings.

#include <nlohmann/json.hpp>

#include "launcher/runs/index.h"
#include "launcher/runs/status.h"

namespace dlrun {

/// Returns the JSON of `dlrun status --json`. Reads the last lines of the failed rank's log, and
/// the files of the run's rehearsal.
[[nodiscard]] nlohmann::ordered_json status_json(const IndexEntry& run, const RunStatus& status);

/// Returns the latest progress of a run as {"time","epoch","epochs","step","steps","loss",
/// "accuracy","samples_per_s"}; null if the run has reported no progress.
[[nodiscard]] nlohmann::ordered_json progress_json(const RunRecord& record);

/// Returns {"attempt","ranks","odd","groups":[{"ranks","hosts","count","frames"}]}. "odd" is the
/// number of ranks whose stacks differ from those of the others.
[[nodiscard]] nlohmann::ordered_json autopsy_json(const Autopsy& autopsy);

}  // namespace dlrun
