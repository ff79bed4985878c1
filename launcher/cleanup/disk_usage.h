#pragma once
// Measures the space that runs take on the disk.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/env.h"
#include "common/result.h"
#include "launcher/runs/directory_tree.h"
#include "launcher/runs/index.h"

namespace dlrun {

struct MeasuredRun {
  IndexEntry run;
  TreeSize size;
};

/// Returns the runs with their sizes, the largest run first. Leaves out a run whose directory is
/// missing, is a link or cannot be read. Reads no file and follows no link; counts the folders
/// below the run that cannot be read in `unread`.
[[nodiscard]] std::vector<MeasuredRun> measure_runs(const std::vector<IndexEntry>& runs);

/// Returns all runs of the user's index that belong to the user. Fails if the index cannot be read.
[[nodiscard]] Result<std::vector<IndexEntry>> all_own_runs(const Env& env);

/// Returns the object of `dlrun du --json`; cli/OUTPUT.md documents it.
[[nodiscard]] nlohmann::ordered_json disk_usage_json(const MeasuredRun& measured);

}  // namespace dlrun
