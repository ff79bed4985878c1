#include "launcher/view/run_overview.h"

#include <nlohmann/json.hpp>

#include "common/json_or_null.h"
#include "launcher/runs/sweep_record.h"
#include "launcher/view/status_json.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostPointsRead = 64;  // of the running points, and of the pending ones

void set_progress_and_result(PointOverview& point, const RunRecord& record) {
  point.progress = record.progress;
  point.result = record.result;
}

}  // namespace

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Result<SweepOverview> read_sweep_overview(RunInspector& inspector, const IndexEntry& run,
                                          std::chrono::milliseconds max_age) {
  DLRUN_TRY_ASSIGN(const auto sweep, read_sweep(run.path));
  SweepOverview overview;
  std::vector<std::filesystem::path> paths;
  for (const auto& point : sweep.points)
    paths.push_back(current_run_of(point_path(run.path, point)));
  const auto states = inspector.inspect_all(paths, max_age);
  for (std::size_t at = 0; at < states.size(); ++at) {
    PointOverview& point = overview.points.emplace_back();
    point.number = at;
    point.values = describe(sweep, sweep.points[at]);
    point.path = paths[at];
    if (!states[at]) {
      point.detail = states[at].error().message;
      continue;
    }
    point.state = states[at]->state;
    point.may_be_outdated = states[at]->may_be_outdated;
    point.detail = states[at]->detail;
    set_progress_and_result(point, states[at]->facts.record);
  }
  overview.overall = sum_up_points(states);
  return overview;
}

void update_points(std::vector<PointOverview>& points) {
  std::size_t running_count = 0, pending_count = 0;
  for (PointOverview& point : points) {
    const bool is_pending = point.state == RunState::kPending;
    if (!is_pending && point.state != RunState::kRunning) continue;
    if (++(is_pending ? pending_count : running_count) > kMostPointsRead) continue;
    const auto record = read_events(point.path);
    if (!record) continue;
    set_progress_and_result(point, *record);
    point.recorded = {record->has_events ? record->attempt : -1, record->ended};
  }
}

Result<RunOverview> read_overview(const Env& env, const KnownServers& servers,
                                  const IndexEntry& run) {
  RunOverview overview;
  overview.run = run;
  if (is_sweep(run.path)) {
    RunInspector inspector(env, servers);
    DLRUN_TRY_ASSIGN(auto sweep, read_sweep_overview(inspector, run, {}));
    overview.status = std::move(sweep.overall);
    overview.points = std::make_shared<const std::vector<PointOverview>>(std::move(sweep.points));
    overview.now = seconds_now();
    return overview;
  }
  DLRUN_TRY_ASSIGN(overview.status, RunInspector(env, servers).inspect(run.path));
  for (;;) {
    DLRUN_TRY_ASSIGN(const auto more, overview.history.read_more(run.path));
    if (!more) break;
  }
  auto ranks = read_ranks(run.path);
  if (ranks) overview.ranks = std::move(*ranks);
  overview.now = seconds_now();
  return overview;
}

Json overview_json(const RunOverview& overview, std::size_t max_ranks) {
  Json json = status_json(overview.run, overview.status);
  const auto& progress = overview.status.facts.record.progress;
  json["seconds_left"] =
      progress && progress->steps && !is_inactive(overview.status.state)
          ? value_or_null(seconds_until_steps(overview.history, *progress->steps, overview.now))
          : Json(nullptr);
  json["sampled"] = overview.ranks ? text_or_null(overview.ranks->time) : Json(nullptr);
  Json ranks = Json::array();
  if (overview.ranks) {
    auto rows = overview.ranks->outliers_first();
    if (max_ranks > 0 && rows.size() > max_ranks) rows.resize(max_ranks);
    for (const RankSample* row : rows) {
      ranks.push_back({{"rank", row->rank},
                       {"host", text_or_null(row->node)},
                       {"cpu", value_or_null(row->cpu)},
                       {"rss_bytes", value_or_null(row->rss_bytes)},
                       {"gpu_percent", value_or_null(row->gpu_percent)},
                       {"gpu_used_bytes", value_or_null(row->gpu_used_bytes)},
                       {"gpu_total_bytes", value_or_null(row->gpu_total_bytes)},
                       {"step", value_or_null(row->step)},
                       {"work_ms", value_or_null(row->work_ms)},
                       {"lag", row->lag},
                       {"age_s", row->age_s},
                       {"mark", text_or_null(word(row->mark))}});
    }
  }
  json["rank_samples"] = std::move(ranks);
  return json;
}

}  // namespace dlrun
