// Two detached threads share one state: one queries the executor with the pauses of Backoff, the
// other reads the run's files every second. Neither is joined, because either may hang in a system
// call.

#include "launcher/view/run_feed.h"

#include <sys/stat.h>

#include <condition_variable>
#include <ctime>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "launcher/executors/backoff.h"

namespace dlrun {
namespace {

constexpr std::chrono::seconds kReadPause{1};

/// Updates a status with the run's own record, which is newer than the executor's answer.
RunStatus with_record(RunStatus status, const RunRecord& record) {
  if (status.sweep) return status;
  RunFacts facts = std::move(status.facts);
  facts.record = record;
  return assess(std::move(facts));
}

}  // namespace

// Shared by all threads. A thread may outlive the RunFeed inside a call that never returns.
struct RunFeed::Shared {
  Env env;
  KnownServers servers;
  IndexEntry run;

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::shared_ptr<const RunOverview> overview;  // guarded by mutex, like all members below
  RunStatus last_status;                        // made from the executor's latest answer
  /// The points of a sweep in that answer; nullptr for a single run.
  std::shared_ptr<const std::vector<PointOverview>> last_points;
  bool is_query_due = false;  // the run's files changed, so the executor must be asked again
  bool is_closing = false;

  /// Waits for `limit`, or until `ends_early` is true or the feed is closing. Returns false if the
  /// feed is closing.
  bool pause(std::chrono::milliseconds limit, const bool& ends_early) {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, limit, [&] { return is_closing || ends_early; });
    return !is_closing;
  }

  void query_until_closed() {
    RunInspector inspector(env, servers);
    Backoff backoff;
    backoff.record_attempt();  // read_overview() has just sent a query
    while (pause(kReadPause, is_query_due)) {
      bool has_record_changed = false;
      {
        const std::lock_guard lock(mutex);
        has_record_changed = std::exchange(is_query_due, false);
        if (!has_record_changed && !backoff.is_due()) continue;
        if (is_inactive(last_status.state) && !last_status.may_be_outdated) continue;
      }
      // The executor's latest answer is older than the change, and the state may change again soon.
      if (has_record_changed) backoff = Backoff();
      const auto max_age = has_record_changed ? std::chrono::milliseconds(0) : backoff.max_age();
      if (last_points) {
        auto points = read_sweep_overview(inspector, run, max_age);
        backoff.record_attempt();
        if (!points) continue;
        const std::lock_guard lock(mutex);
        last_status = std::move(points->overall);
        last_points = std::make_shared<const std::vector<PointOverview>>(std::move(points->points));
        continue;
      }
      auto status = inspector.inspect(run.path, max_age);
      backoff.record_attempt();
      const std::lock_guard lock(mutex);
      if (status) last_status = std::move(*status);
    }
  }

  /// Updates the points of the sweep from their files, and publishes `current` as the new overview.
  /// Asks for a query if the record of a point has changed and does not fit the point's state.
  /// recorded: the records that earlier calls have seen, by the numbers of the points.
  void update_sweep(RunOverview& current,
                    std::map<std::size_t, std::pair<std::int64_t, bool>>& recorded) {
    std::shared_ptr<const std::vector<PointOverview>> latest;
    {
      const std::lock_guard lock(mutex);
      latest = last_points;
      current.status = last_status;
    }
    auto points = std::make_shared<std::vector<PointOverview>>(*latest);
    update_points(*points);
    bool is_outdated = false;
    for (const PointOverview& point : *points) {
      if (!point.recorded) continue;
      const auto [attempt, has_ended] = *point.recorded;
      const auto [seen, is_new] = recorded.try_emplace(point.number, -1, false);
      const bool has_changed = std::exchange(seen->second, *point.recorded) != *point.recorded;
      const bool fits = point.state == RunState::kPending ? attempt < 0 : !has_ended;
      is_outdated = is_outdated || (has_changed && !fits);
    }
    current.points = std::move(points);
    current.now = seconds_now();
    const std::lock_guard lock(mutex);
    if (is_outdated) {
      is_query_due = true;
      changed.notify_all();
    }
    overview = std::make_shared<const RunOverview>(current);
  }

  void read_until_closed(RunOverview current) {
    const bool never = false;
    timespec ranks_written{};
    std::map<std::size_t, std::pair<std::int64_t, bool>> recorded;
    while (pause(kReadPause, never)) {
      if (current.points) {
        update_sweep(current, recorded);
        continue;
      }
      const RunRecord before = current.history.record();
      while (current.history.read_more(run.path).value_or(false)) {
      }
      struct stat info {};
      const bool has_ranks = ::stat((run.path / "ranks.json").c_str(), &info) == 0;
      if (has_ranks && (info.st_mtim.tv_sec != ranks_written.tv_sec ||
                        info.st_mtim.tv_nsec != ranks_written.tv_nsec)) {
        ranks_written = info.st_mtim;
        if (auto ranks = read_ranks(run.path)) current.ranks = std::move(*ranks);
      }
      const RunRecord& record = current.history.record();
      const std::lock_guard lock(mutex);
      if (record.has_events != before.has_events || record.ended != before.ended ||
          record.attempt != before.attempt || record.restarts.size() != before.restarts.size()) {
        is_query_due = true;
        changed.notify_all();
      }
      current.status = with_record(last_status, record);
      current.now = seconds_now();
      overview = std::make_shared<const RunOverview>(current);
    }
  }
};

RunFeed::RunFeed(const Env& env, const KnownServers& servers, RunOverview first)
    : shared_(std::make_shared<Shared>()) {
  shared_->env = env;
  shared_->servers = servers;
  shared_->run = first.run;
  shared_->last_status = first.status;
  shared_->last_points = first.points;
  shared_->overview = std::make_shared<const RunOverview>(first);
  std::thread([shared = shared_] { shared->query_until_closed(); }).detach();
  std::thread([shared = shared_, first = std::move(first)]() mutable {
    shared->read_until_closed(std::move(first));
  }).detach();
}

RunFeed::~RunFeed() {
  const std::lock_guard lock(shared_->mutex);
  shared_->is_closing = true;
  shared_->changed.notify_all();
}

std::shared_ptr<const RunOverview> RunFeed::overview() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->overview;
}

}  // namespace dlrun
