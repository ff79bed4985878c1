#include "launcher/submit/cancellation.h"

#include <algorithm>
#include <map>
#include <set>

#include "launcher/runs/cancel_mark.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/sweep_record.h"

namespace dlrun {
namespace {

/// Sets and removes the mark of a cancelled run (cancel_mark.h). The mark is set before the job is
/// cancelled, because another command may read the job's end before this command continues. If the
/// mark cannot be set, for example on a full disk, the job is cancelled nevertheless.
class CancelMark {
 public:
  explicit CancelMark(std::filesystem::path run)
      : run_(std::move(run)), was_set_before_(is_marked_cancelled(run_)) {}
  [[nodiscard]] Result<> set() const { return mark_cancelled(run_); }
  /// Removes the mark, unless an earlier cancellation has set it.
  void take_back() const {
    if (!was_set_before_) unmark_cancelled(run_);
  }

 private:
  std::filesystem::path run_;
  bool was_set_before_;
};

/// Refuses to cancel a point whose job also runs other points (sweep.pack).
Result<> refuse_shared_job(const IndexEntry& run, const RunStatus& status) {
  const auto path = sweep_of_point(run.path);
  if (!path) return {};
  const auto sweep = read_sweep(*path);
  if (!sweep || sweep->pack == 1) return {};
  const std::string sweep_id = run.id.substr(0, run.id.rfind('/'));
  return fail(
      Errc::kUsage,
      "{}: its job {} runs up to {} points (sweep.pack); `dlrun cancel {}` ends the sweep, and "
      "`scancel {}` ends the points of this job",
      run.id, status.job.id, sweep->pack, sweep_id, status.job.id);
}

/// Cancels the job unless it has ended. Returns true if it was cancelled.
Result<bool> cancel_unless_ended(Executor& executor, const JobId& job, std::string_view token) {
  DLRUN_TRY_ASSIGN(const auto answer, executor.query({&job, 1}, {}));
  if (answer.reports.empty() || answer.reports.front().phase == JobPhase::kEnded) return false;
  const auto done = executor.cancel(job, token);
  if (!done && done.error().code != Errc::kNotFound) return tl::unexpected(done.error());
  return done.has_value();
}

/// Cancels all jobs of the run's chain (retry.chain) that have not ended, from the last one to the
/// first, because the end of a job lets the next one start. Stops at the first job that cannot be
/// cancelled.
Result<Cancelled> cancel_chain(RunInspector& inspector, const IndexEntry& run,
                               const RunStatus& status) {
  auto jobs = chain_jobs_of(status.facts);
  std::reverse(jobs.begin(), jobs.end());
  Executor& executor = inspector.executor_of(status.facts);
  Cancelled cancelled;
  CancelMark mark(run.path);
  const auto marked = status.facts.record.ended ? Result<>() : mark.set();
  for (const JobId& job : jobs) {
    // The query comes right before each cancellation, because a job may end while others are
    // cancelled.
    const auto done = cancel_unless_ended(executor, job, token_of(status.facts));
    if (!done) {
      cancelled.failure = within(fmt::format("{}: job {}", run.id, job.id), done.error()).value();
      mark.take_back();
      return cancelled;
    }
    if (*done) cancelled.jobs.push_back(job.id);
  }
  cancelled.was_running = !cancelled.jobs.empty() && status.state == RunState::kRunning;
  if (cancelled.jobs.empty()) {
    cancelled.remark = fmt::format("nothing to cancel, it is {}", word(status.state));
    mark.take_back();
    return cancelled;
  }
  DLRUN_TRY(marked);
  return cancelled;
}

Result<Cancelled> cancel_one(RunInspector& inspector, const IndexEntry& run) {
  DLRUN_TRY_ASSIGN(const auto status, inspector.inspect(run.path));
  if (!status.facts.follow_ups.empty() && !status.facts.foreign)
    return cancel_chain(inspector, run, status);
  Cancelled cancelled;
  // A run of unknown state counts as inactive, but its job may still run.
  if (is_inactive(status.state) && status.state != RunState::kUnknown) {
    cancelled.remark = fmt::format("nothing to cancel, it is {}", word(status.state));
    return cancelled;
  }
  if (status.job.id.empty())
    return fail(status.may_be_outdated ? Errc::kUnavailable : Errc::kNotFound, "{}: {}", run.id,
                status.detail);
  if (is_ending_after_cancel(status)) {
    cancelled.remark = fmt::format("job {} was cancelled before, and its processes are being ended",
                                   status.job.id);
    return cancelled;
  }
  DLRUN_TRY(refuse_shared_job(run, status));
  CancelMark mark(run.path);
  const auto marked = mark.set();
  auto done = inspector.executor_of(status.facts).cancel(status.job, token_of(status.facts));
  if (!done) {
    mark.take_back();
    return within(run.id, done.error());
  }
  cancelled.is_local = status.job.cluster == kLocalCluster;
  cancelled.was_running = status.state == RunState::kRunning;
  DLRUN_TRY(marked);
  cancelled.jobs.push_back(status.job.id);
  return cancelled;
}

Result<Cancelled> cancel_sweep(RunInspector& inspector, const IndexEntry& run) {
  DLRUN_TRY_ASSIGN(const auto sweep, read_sweep(run.path));
  std::vector<std::filesystem::path> points;
  for (const auto& point : sweep.points)
    points.push_back(current_run_of(point_path(run.path, point)));
  const auto states = inspector.inspect_all(points);
  // Maps the id of an array, or of a single job, to the index of one of its unfinished points.
  std::map<std::string, std::size_t> jobs;
  std::set<std::string> running_jobs;  // the jobs with at least one running point
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (!states[i] || is_inactive(states[i]->state) || states[i]->job.id.empty() ||
        states[i]->facts.foreign)
      continue;
    const std::string& id = states[i]->job.id;
    jobs.try_emplace(id.substr(0, id.find('_')), i);
    if (states[i]->state == RunState::kRunning) running_jobs.insert(id.substr(0, id.find('_')));
  }
  Cancelled cancelled;
  if (jobs.empty()) {
    cancelled.remark = fmt::format("nothing to cancel, {}", sum_up_points(states).detail);
    return cancelled;
  }
  for (std::size_t array = 0; array < sweep.array_count; ++array)
    DLRUN_TRY(require_own(run.id, array_path(run.path, array), "cancel it"));
  for (std::size_t array = 0; array < sweep.array_count; ++array)
    DLRUN_TRY(mark_cancelled(array_path(run.path, array)));
  for (const auto& [id, index] : jobs) {
    const RunStatus& status = *states[index];
    auto done = inspector.executor_of(status.facts)
                    .cancel({status.job.cluster, id}, token_of(status.facts));
    if (!done) {
      cancelled.failure = within(run.id, done.error()).value();
      return cancelled;
    }
    cancelled.jobs.push_back(id);
    cancelled.was_running = cancelled.was_running || running_jobs.count(id) > 0;
    // A point that was submitted again is a run of its own, outside of the array.
    if (points[index] != point_path(run.path, sweep.points[index]))
      DLRUN_TRY(mark_cancelled(points[index]));
  }
  return cancelled;
}

}  // namespace

Result<Cancelled> cancel_run(RunInspector& inspector, const IndexEntry& run) {
  return is_sweep(run.path) ? cancel_sweep(inspector, run) : cancel_one(inspector, run);
}

}  // namespace dlrun
