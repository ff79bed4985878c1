#pragma once
// A run, or a sweep with its points, at one moment: everything that `dlrun top` shows.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "launcher/runs/history.h"
#include "launcher/runs/index.h"
#include "launcher/runs/ranks.h"
#include "launcher/runs/status.h"

namespace dlrun {

/// A point of a sweep at one moment.
struct PointOverview {
  std::size_t number = 0;
  std::string values;          ///< the values that the point sets
  std::filesystem::path path;  ///< the point's current run
  RunState state = RunState::kUnknown;
  bool may_be_outdated = false;  ///< as in RunStatus
  std::string detail;
  std::optional<Progress> progress;
  std::string result;  ///< a JSON object; empty if there is no result
  /// The latest attempt in the point's record (-1: none), and whether the record has the run's end.
  /// nullopt: update_points() has not read the record.
  std::optional<std::pair<std::int64_t, bool>> recorded;
};

/// A run at one moment.
struct RunOverview {
  IndexEntry run;
  RunStatus status;
  RunHistory history;
  std::optional<RankSnapshot> ranks;
  /// The points of a sweep; nullptr for a single run.
  std::shared_ptr<const std::vector<PointOverview>> points;
  double now = 0;  ///< seconds since 1970
};

/// Returns the run's current state: reads its files and asks the executor once. Fails as
/// RunInspector::inspect() does, and for a sweep as read_sweep() does.
[[nodiscard]] Result<RunOverview> read_overview(const Env& env, const KnownServers& servers,
                                                const IndexEntry& run);

/// Returns the overview as JSON; cli/OUTPUT.md documents it. max_ranks: the largest number of rank
/// samples; 0: all.
[[nodiscard]] nlohmann::ordered_json overview_json(const RunOverview& overview,
                                                   std::size_t max_ranks = 0);

/// A sweep at one moment.
struct SweepOverview {
  RunStatus overall;  ///< the sweep's state, which follows from its points
  std::vector<PointOverview> points;
};
/// Inspects all points of the sweep. max_age: as for RunInspector::inspect().
[[nodiscard]] Result<SweepOverview> read_sweep_overview(RunInspector& inspector,
                                                        const IndexEntry& run,
                                                        std::chrono::milliseconds max_age);
/// Updates at most 64 running and 64 pending points from their files, without a query to the
/// executor.
void update_points(std::vector<PointOverview>& points);

/// Returns the present time in seconds since 1970.
[[nodiscard]] double seconds_now();

}  // namespace dlrun
