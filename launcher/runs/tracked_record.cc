#include "launcher/runs/tracked_record.h"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <optional>

#include "common/job_id.h"
#include "common/log.h"
#include "common/text.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/sweep_record.h"

namespace dlrun {
namespace {

/// Returns the state in which the run has ended; nullopt if it may still have a job.
std::optional<EndState> end_of(const RunStatus& status) {
  const RunFacts& f = status.facts;
  // Slurm forgets a job some minutes after its end. A job that it does not know does not run.
  const bool is_forgotten = status.state == RunState::kUnknown && f.has_answer && !f.report &&
                            status.job.cluster != kLocalCluster;
  if (!is_over(status) && !is_forgotten) return std::nullopt;
  if (status.state == RunState::kCompleted) return EndState::kCompleted;
  return status.state == RunState::kCancelled ? EndState::kCancelled : EndState::kFailed;
}

/// Returns the time of the last event of the run in milliseconds since 1970; now if it has none.
std::int64_t last_time_ms(const RunRecord& record) {
  if (const auto seconds = seconds_of_utc(record.last_time)) return std::llround(*seconds * 1000);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::floor<std::chrono::milliseconds>(now).count();
}

Result<TrackedRun> sync_record(const Env& env, const IndexEntry& run,
                               const Result<RunStatus>& status) {
  const MlflowRecord record(run.path);
  DLRUN_TRY_ASSIGN(const auto made, record.read());
  if (!status) return tl::unexpected<Error>(status.error());
  const auto end = end_of(*status);
  if (!end)
    return fail(Errc::kInvalid,
                "{} has not ended; its job sends the record itself. If its job is gone, `dlrun "
                "status {}` says so",
                run.id, run.id);
  std::string token;
  if (!made.secret.empty()) {
    token = env.get_or(made.secret, "");
    if (token.empty())
      return fail(Errc::kInvalid,
                  "the server's token is not set in this environment; export {} "
                  "(track.mlflow.secret)",
                  made.secret);
    hide_in_log(token);
  }
  DLRUN_TRY(record.add_missing_end(*end, last_time_ms(status->facts.record)));
  return TrackedRun{run.id, record.sync(env, token, [] { return true; })};
}

}  // namespace

Result<std::vector<TrackedRun>> sync_records(const Env& env, RunInspector& inspector,
                                             const IndexEntry& run) {
  DLRUN_TRY(require_own(run.id, run.path, "send it to a server"));
  DLRUN_TRY_ASSIGN(const auto runs, runs_of(run));
  std::vector<IndexEntry> recorded;
  std::vector<std::filesystem::path> paths;
  for (const IndexEntry& one : runs) {
    if (!MlflowRecord(one.path).exists()) continue;
    recorded.push_back(one);
    paths.push_back(one.path);
  }
  const auto states = inspector.inspect_all(paths);
  std::vector<TrackedRun> done;
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    const IndexEntry& one = recorded[i];
    auto tracked = sync_record(env, one, states[i]);
    if (!tracked && runs.size() == 1) return tl::unexpected<Error>(std::move(tracked.error()));
    // The other points of a sweep are sent nevertheless.
    if (!tracked)
      tracked = TrackedRun{one.id, {.is_complete = false, .problem = tracked.error().message}};
    done.push_back(std::move(*tracked));
  }
  if (done.empty())
    return fail(Errc::kInvalid,
                "{} has no record for a server: its spec has no track.mlflow, or its job has not "
                "started",
                run.id);
  return done;
}

}  // namespace dlrun
