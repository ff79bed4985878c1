#include "launcher/view/run_picture.h"

#include <nlohmann/json.hpp>

#include "common/json_or_null.h"
#include "launcher/runs/sweep_record.h"
#include "launcher/view/status_json.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostPointsRead = 64;  // running points whose files one update reads

void set_progress_and_result(PointPicture& point, const RunRecord& record) {
  point.progress = record.progress;
  point.result = record.result;
}

}  // namespace

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Result<SweepPicture> take_sweep_picture(RunInspector& inspector, const IndexEntry& run,
                                        std::chrono::milliseconds max_age) {
  DLRUN_TRY_ASSIGN(const auto sweep, read_sweep(run.path));
  SweepPicture picture;
  std::vector<std::filesystem::path> paths;
  for (const auto& point : sweep.points)
    paths.push_back(current_run_of(point_path(run.path, point)));
  const auto states = inspector.inspect_all(paths, max_age);
  for (std::size_t at = 0; at < states.size(); ++at) {
    PointPicture& point = picture.points.emplace_back();
    point.number = at;
    point.values = describe(sweep, sweep.points[at]);
    point.path = paths[at];
    if (!states[at]) {
      point.detail = states[at].error().message;
      continue;
    }
    point.state = states[at]->state;
    point.is_last_known = states[at]->is_last_known;
    point.detail = states[at]->detail;
    set_progress_and_result(point, states[at]->facts.record);
  }
  picture.overall = sum_up_points(states);
  return picture;
}

bool update_points(std::vector<PointPicture>& points) {
  bool has_ended = false;
  std::size_t points_read = 0;
  for (PointPicture& point : points) {
    if (point.state != RunState::kRunning || ++points_read > kMostPointsRead) continue;
    const auto record = read_events(point.path);
    if (!record) continue;
    set_progress_and_result(point, *record);
    has_ended = has_ended || record->ended;
  }
  return has_ended;
}

Result<RunPicture> take_picture(const Env& env, const KnownServers& servers,
                                const IndexEntry& run) {
  RunPicture picture;
  picture.run = run;
  if (is_sweep(run.path)) {
    RunInspector inspector(env, servers);
    DLRUN_TRY_ASSIGN(auto sweep, take_sweep_picture(inspector, run, {}));
    picture.status = std::move(sweep.overall);
    picture.points = std::make_shared<const std::vector<PointPicture>>(std::move(sweep.points));
    picture.now = seconds_now();
    return picture;
  }
  DLRUN_TRY_ASSIGN(picture.status, RunInspector(env, servers).inspect(run.path));
  for (;;) {
    DLRUN_TRY_ASSIGN(const auto more, picture.history.read_more(run.path));
    if (!more) break;
  }
  auto ranks = read_ranks(run.path);
  if (ranks) picture.ranks = std::move(*ranks);
  picture.now = seconds_now();
  return picture;
}

Json picture_json(const RunPicture& picture, std::size_t max_ranks) {
  Json json = status_json(picture.run, picture.status);
  const auto& progress = picture.status.facts.record.progress;
  json["seconds_left"] =
      progress && progress->steps && !is_inactive(picture.status.state)
          ? value_or_null(seconds_until_steps(picture.history, *progress->steps, picture.now))
          : Json(nullptr);
  json["sampled"] = picture.ranks ? text_or_null(picture.ranks->time) : Json(nullptr);
  Json ranks = Json::array();
  if (picture.ranks) {
    auto rows = picture.ranks->outliers_first();
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
