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
/// missing, is a link or cannot be read. Reads no file and follows no link. The field
/// TreeSize::unread has the number of folders below the run that were not read.
[[nodiscard]] std::vector<MeasuredRun> measure_runs(const std::vector<IndexEntry>& runs);

/// Returns all runs of the user's index that belong to the user. Fails if the index cannot be read.
[[nodiscard]] Result<std::vector<IndexEntry>> all_own_runs(const Env& env);

/// Returns the size of the checkpoints as text. Returns "-" if there are no files in folders named
/// `ckpt`, because the program may have checkpoints elsewhere.
[[nodiscard]] std::string checkpoints_text(const TreeSize& size);

/// Returns the object of `dlrun du --json`; cli/OUTPUT.md documents it.
[[nodiscard]] nlohmann::ordered_json disk_usage_json(const MeasuredRun& measured);

}  // namespace dlrun
