#pragma once
// Decides which runs `dlrun rm` and `dlrun prune` delete. A run that is pending or running, or
// whose state is unknown, stays, and so does everything outside run directories.

#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/env.h"
#include "common/result.h"
#include "launcher/runs/run_deletion.h"
#include "launcher/runs/status.h"

namespace dlrun {

/// A run that the plan deletes.
struct PlannedDeletion {
  IndexEntry run;
  RunState state = RunState::kUnknown;
  ExaminedRun examined;
  bool is_gone = false;                              ///< only the index still has the run
  std::chrono::steady_clock::time_point asked_at{};  ///< when Slurm was asked about the run
};

/// A run that stays, and the reason.
struct KeptRun {
  IndexEntry run;
  Error why;
};

struct CleanupPlan {
  /// The planned deletions, the oldest run first. A sweep therefore precedes its repetitions, which
  /// are the runs that `dlrun resubmit` made of its points. With rm, the runs that are gone are
  /// first.
  std::vector<PlannedDeletion> deletions;
  std::vector<KeptRun> kept;
  RunParts parts = RunParts::kAll;
  /// For kDiagnostics: the number of runs that could be cleaned up, but have no diagnostic files.
  std::size_t runs_without_diagnostics = 0;
  /// True for prune, where the user has not named the runs: if another process uses or deletes a
  /// run meanwhile, clean_up() reports a note instead of an error.
  bool tolerates_busy_runs = false;
  /// The runs folders in which finish_interrupted_deletions() looks for interrupted deletions and
  /// finishes them.
  std::set<std::filesystem::path> folders;

  [[nodiscard]] TreeSize size() const;
};

/// Decides for each of these runs whether it can be deleted. A sweep is deleted with its points,
/// and a point only with its sweep. Fails only if the index cannot be read.
[[nodiscard]] Result<CleanupPlan> plan_removal(const Env& env, RunInspector& inspector,
                                               const std::vector<IndexEntry>& runs);

struct PruneRequest {
  std::chrono::seconds older_than{0};
  RunParts parts = RunParts::kAll;
  std::filesystem::path folder;  ///< only runs in this folder; empty: all runs
};

/// Chooses the runs of the index whose creation, last event and recorded end are all longer ago
/// than request.older_than. Leaves out runs of other users and runs whose directory is gone.
/// Changes nothing. Fails only if the index or the path of the folder cannot be read.
[[nodiscard]] Result<CleanupPlan> plan_pruning(const Env& env, RunInspector& inspector,
                                               const PruneRequest& request);

/// Deletes one run of a plan. Examines the run and its state again, because the user may have
/// thought about the plan for hours. Fails and deletes nothing if the run must stay now.
[[nodiscard]] Result<TreeDeletion> delete_planned(const Env& env, RunInspector& inspector,
                                                  const PlannedDeletion& planned, RunParts parts);

/// Finishes interrupted deletions in the folders of the plan.
[[nodiscard]] TreeDeletion finish_interrupted_deletions(const CleanupPlan& plan);

/// Return an object of the list `runs` and one of the list `kept` in the JSON of `rm --json` and
/// `prune --json`; cli/OUTPUT.md documents them.
[[nodiscard]] nlohmann::ordered_json planned_deletion_json(const PlannedDeletion& planned);
[[nodiscard]] nlohmann::ordered_json kept_json(const KeptRun& kept);

}  // namespace dlrun
