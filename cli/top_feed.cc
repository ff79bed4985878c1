// Two detached threads share one state: one asks the executor with the pauses of Backoff, the other
// reads the run's files every second. Neither is joined, because either may hang in a system call.

#include "cli/top_feed.h"

#include <sys/stat.h>

#include <condition_variable>
#include <ctime>
#include <mutex>
#include <thread>
#include <utility>

#include "cli/backoff.h"
#include "cli/prepare.h"
#include "launcher/runs/sweep.h"

namespace dlrun {
namespace {

constexpr std::chrono::seconds kLookEvery{1};

double now_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Updates a status with the run's own record, which is newer than the executor's answer.
RunStatus with_record(RunStatus status, const RunRecord& record) {
  if (status.sweep) return status;
  RunFacts facts = std::move(status.facts);
  facts.record = record;
  return assess(std::move(facts));
}

constexpr std::size_t kPointsLookedAt = 64;  // running points whose files are read each second

struct PointsNow {
  RunStatus sum;
  std::vector<TopPoint> points;
};

void take_record(TopPoint& point, const RunRecord& record) {
  point.progress = record.progress;
  point.result = record.result;
}

Result<PointsNow> take_points(RunInspector& inspector, const IndexEntry& run,
                              std::chrono::milliseconds max_age) {
  const auto sweep = read_sweep(run.path);
  if (!sweep) return tl::unexpected(sweep.error());
  PointsNow now;
  std::vector<std::filesystem::path> paths;
  for (const auto& point : sweep->points)
    paths.push_back(current_run_of(point_path(run.path, point)));
  const auto states = inspector.inspect_all(paths, max_age);
  for (std::size_t at = 0; at < states.size(); ++at) {
    TopPoint& point = now.points.emplace_back();
    point.number = at;
    point.values = describe(*sweep, sweep->points[at]);
    point.path = paths[at];
    if (!states[at]) {
      point.detail = states[at].error().message;
      continue;
    }
    point.state = states[at]->state;
    point.is_last_known = states[at]->is_last_known;
    point.detail = states[at]->detail;
    take_record(point, states[at]->facts.record);
  }
  now.sum = sum_up_points(states);
  return now;
}

/// Reads what running points have written since the last query to Slurm. Returns true if one of
/// them has ended.
bool look_at_points(std::vector<TopPoint>& points) {
  bool has_ended = false;
  std::size_t looked_at = 0;
  for (TopPoint& point : points) {
    if (point.state != RunState::kRunning || ++looked_at > kPointsLookedAt) continue;
    const auto record = read_events(point.path);
    if (!record) continue;
    take_record(point, *record);
    has_ended = has_ended || record->ended;
  }
  return has_ended;
}

}  // namespace

Result<TopPicture> take_picture(const Cli& cli, const IndexEntry& run) {
  TopPicture picture;
  picture.run = run;
  if (is_sweep(run.path)) {
    RunInspector inspector(cli.env, known_servers(cli));
    auto now = take_points(inspector, run, {});
    if (!now) return tl::unexpected(now.error());
    picture.status = std::move(now->sum);
    picture.points = std::make_shared<const std::vector<TopPoint>>(std::move(now->points));
    picture.now = now_s();
    return picture;
  }
  auto status = RunInspector(cli.env, known_servers(cli)).inspect(run.path);
  if (!status) return tl::unexpected(status.error());
  picture.status = std::move(*status);
  for (;;) {
    const auto more = picture.history.read_more(run.path);
    if (!more) return tl::unexpected(more.error());
    if (!*more) break;
  }
  auto ranks = read_ranks(run.path);
  if (ranks) picture.ranks = std::move(*ranks);
  picture.now = now_s();
  return picture;
}

// Shared by all threads. A thread may outlive the others inside a call that never returns.
struct TopFeed::Shared {
  Env env;
  KnownServers servers;
  IndexEntry run;

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::shared_ptr<const TopPicture> picture;  // guarded by mutex, like all members below
  RunStatus asked;                            // made from the executor's last answer
  std::shared_ptr<const std::vector<TopPoint>> asked_points;  // the same for a sweep's points
  bool is_asking_due = false;
  bool is_closing = false;

  /// Waits for `limit` or until `wakes`. Returns false if the feed is closing.
  bool pause(std::chrono::milliseconds limit, const bool& wakes) {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, limit, [&] { return is_closing || wakes; });
    return !is_closing;
  }

  void ask_until_closed() {
    RunInspector inspector(env, servers);
    Backoff backoff;
    backoff.asked();  // take_picture() has just asked
    while (pause(kLookEvery, is_asking_due)) {
      {
        const std::lock_guard lock(mutex);
        if (!std::exchange(is_asking_due, false) && !backoff.is_due()) continue;
        if (is_final(asked.state) && !asked.is_last_known) continue;
      }
      if (asked_points) {
        auto points = take_points(inspector, run, backoff.max_age());
        backoff.asked();
        if (!points) continue;
        const std::lock_guard lock(mutex);
        asked = std::move(points->sum);
        asked_points = std::make_shared<const std::vector<TopPoint>>(std::move(points->points));
        continue;
      }
      auto status = inspector.inspect(run.path, backoff.max_age());
      backoff.asked();
      const std::lock_guard lock(mutex);
      if (status) asked = std::move(*status);
    }
  }

  void look_at_sweep(TopPicture& now) {
    std::shared_ptr<const std::vector<TopPoint>> latest;
    {
      const std::lock_guard lock(mutex);
      latest = asked_points;
      now.status = asked;
    }
    auto points = std::make_shared<std::vector<TopPoint>>(*latest);
    const bool has_ended = look_at_points(*points);
    now.points = std::move(points);
    now.now = now_s();
    const std::lock_guard lock(mutex);
    if (has_ended) {
      is_asking_due = true;
      changed.notify_all();
    }
    picture = std::make_shared<const TopPicture>(now);
  }

  void look_until_closed(TopPicture now) {
    const bool never = false;
    timespec ranks_written{};
    while (pause(kLookEvery, never)) {
      if (now.points) {
        look_at_sweep(now);
        continue;
      }
      const RunRecord before = now.history.record();
      while (now.history.read_more(run.path).value_or(false)) {
      }
      struct stat info {};
      const bool has_ranks = ::stat((run.path / "ranks.json").c_str(), &info) == 0;
      if (has_ranks && (info.st_mtim.tv_sec != ranks_written.tv_sec ||
                        info.st_mtim.tv_nsec != ranks_written.tv_nsec)) {
        ranks_written = info.st_mtim;
        if (auto ranks = read_ranks(run.path)) now.ranks = std::move(*ranks);
      }
      const RunRecord& record = now.history.record();
      const std::lock_guard lock(mutex);
      if (record.has_events != before.has_events || record.ended != before.ended ||
          record.attempt != before.attempt) {
        is_asking_due = true;
        changed.notify_all();
      }
      now.status = with_record(asked, record);
      now.now = now_s();
      picture = std::make_shared<const TopPicture>(now);
    }
  }
};

TopFeed::TopFeed(const Cli& cli, TopPicture first) : shared_(std::make_shared<Shared>()) {
  shared_->env = cli.env;
  shared_->servers = known_servers(cli);
  shared_->run = first.run;
  shared_->asked = first.status;
  shared_->asked_points = first.points;
  shared_->picture = std::make_shared<const TopPicture>(first);
  std::thread([shared = shared_] { shared->ask_until_closed(); }).detach();
  std::thread([shared = shared_, first = std::move(first)]() mutable {
    shared->look_until_closed(std::move(first));
  }).detach();
}

TopFeed::~TopFeed() {
  const std::lock_guard lock(shared_->mutex);
  shared_->is_closing = true;
  shared_->changed.notify_all();
}

std::shared_ptr<const TopPicture> TopFeed::picture() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->picture;
}

}  // namespace dlrun
