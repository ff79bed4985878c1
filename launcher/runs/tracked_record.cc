#include "launcher/runs/tracked_record.h"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <string>
#include <utility>

#include "common/job_id.h"
#include "common/log.h"
#include "common/text.h"
#include "launcher/executors/foreground.h"
#include "launcher/executors/slurm_conf.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/sweep_record.h"

namespace dlrun {
namespace {

/// If no answer shows whether the job has ended, dlrun assumes the end when the last event of the
/// run is older than this.
constexpr std::chrono::minutes kMinAgeOfLastEvent{10};

/// The longest time for one request. A server that gets a value again compares it with all values
/// of that name, which takes some seconds after 100,000 values.
constexpr std::chrono::seconds kRequestLimit{60};

std::int64_t now_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::floor<std::chrono::milliseconds>(now).count();
}

/// Returns the time of the last event of the run in milliseconds since 1970, else the time of its
/// creation, else now.
std::int64_t last_time_ms(const IndexEntry& run, const RunRecord& record) {
  for (const std::string& time : {record.last_time, run.created}) {
    if (const auto seconds = seconds_of_utc(time)) return std::llround(*seconds * 1000);
  }
  return now_ms();
}

bool is_last_event_old(std::int64_t last_ms) {
  return now_ms() - last_ms > std::chrono::milliseconds(kMinAgeOfLastEvent).count();
}

EndState end_state_of(RunState state) {
  if (state == RunState::kCompleted) return EndState::kCompleted;
  return state == RunState::kCancelled ? EndState::kCancelled : EndState::kFailed;
}

/// Fails unless the answer came from the cluster of the run's job. Several clusters may share a
/// home, and the Slurm of another cluster does not know a job that may still run.
Result<> check_asked_cluster(const Env& env, const IndexEntry& run, const RunStatus& status) {
  const RunFacts& f = status.facts;
  // The query named the cluster, or went to the slurmrestd that got the job.
  if (!status.job.cluster.empty() || (f.submission && f.submission->server)) return {};
  const std::string claimed = f.claim ? f.claim->job.cluster : "";
  const std::string asked = answering_cluster_name(env);
  if (!claimed.empty() && claimed == asked) return {};
  if (claimed.empty() || asked.empty())
    return fail(Errc::kInvalid,
                "{}: Slurm does not know job {}, and it is not certain that this is the cluster of "
                "the job, so the job may still be running",
                run.id, status.job.id);
  return fail(Errc::kInvalid,
              "{0}: its job {1} belongs to cluster {2}, and cluster {3} does not know whether it "
              "still runs. Call `dlrun track sync {0}` on a login node of {2}",
              run.id, status.job.id, printable(claimed), printable(asked));
}

/// Fails if the run may not have ended. A run whose job Slurm does not know counts as ended if the
/// last event of the run is old. last_ms: the time of that event.
Result<> check_has_ended(const Env& env, const IndexEntry& run, const RunStatus& status,
                         std::int64_t last_ms) {
  if (is_over(status)) return {};
  const RunFacts& f = status.facts;
  if (is_unreachable(status))
    return fail(Errc::kUnavailable, "{}: it is not known whether the run has ended: {}", run.id,
                f.why_unreachable);
  const bool is_unknown_to_slurm = status.state == RunState::kUnknown && f.has_answer &&
                                   !f.report && status.job.cluster != kLocalCluster;
  if (!is_unknown_to_slurm && status.state == RunState::kUnknown)
    return fail(Errc::kInvalid, "{}: it is not known whether the run has ended: {}", run.id,
                status.detail);
  if (!is_unknown_to_slurm)
    return fail(Errc::kInvalid,
                "{0} has not ended; its job sends the record itself. If its job is gone, `dlrun "
                "status {0}` says so",
                run.id);
  // Slurm forgets a job some minutes after its end.
  DLRUN_TRY(check_asked_cluster(env, run, status));
  if (is_last_event_old(last_ms)) return {};
  return fail(Errc::kInvalid,
              "{}: Slurm does not know job {}, but the last event of the run is not {} minutes old "
              "yet, so the job may still be running; try again later",
              run.id, status.job.id, kMinAgeOfLastEvent.count());
}

/// Returns true if no process of the job of an ended run can still write to RUN/track. Lead records
/// the end of the run in events.jsonl before its helper has written the last values to RUN/track.
bool is_job_gone(const RunStatus& status, std::int64_t last_ms) {
  if (status.facts.report) return status.facts.report->phase == JobPhase::kEnded;
  if (status.job.cluster == kLocalCluster &&
      has_local_process_ended(status.job.id, pid_namespace_of(status.facts)))
    return true;
  return is_last_event_old(last_ms);
}

/// Sends the record of a run that has ended. Adds the end first if the job cannot add it any more.
Result<SyncReport> send_ended(const Env& env, const IndexEntry& run, const RunStatus& status,
                              const std::string& token) {
  const MlflowRecord record(run.path);
  const auto always = [] { return true; };
  const auto last_ms = last_time_ms(run, status.facts.record);
  if (is_job_gone(status, last_ms))
    return record.sync(env, token, always, MissingEnd{end_state_of(status.state), last_ms},
                       kRequestLimit);
  // Looks for the end before sync(). An end that the job adds during sync() may be in the record
  // but not at the server yet.
  DLRUN_TRY_ASSIGN(const bool has_end, record.has_end());
  SyncReport report = record.sync(env, token, always, {}, kRequestLimit);
  if (report.is_complete && !has_end) {
    report.is_complete = false;
    report.problem = fmt::format(
        "the end of the run is not in the record, and its job may still add it; try again {} "
        "minutes after the end",
        kMinAgeOfLastEvent.count());
  }
  return report;
}

Result<RunSyncReport> sync_record(const Env& env, const IndexEntry& run,
                                  const Result<RunStatus>& status) {
  DLRUN_TRY_ASSIGN(const auto recorded, MlflowRecord(run.path).read_run());
  if (!status) return tl::unexpected<Error>(status.error());
  DLRUN_TRY(check_has_ended(env, run, *status, last_time_ms(run, status->facts.record)));
  std::string token;
  if (!recorded.secret_name.empty()) {
    token = env.get_or(recorded.secret_name, "");
    if (token.empty())
      return fail(Errc::kInvalid,
                  "the server's token is empty or not set in this environment; export {} "
                  "(track.mlflow.secret)",
                  recorded.secret_name);
    hide_in_log(token);
  }
  DLRUN_TRY_ASSIGN(auto report, send_ended(env, run, *status, token));
  return RunSyncReport{run.id, std::move(report)};
}

}  // namespace

Result<std::vector<RunSyncReport>> sync_records(const Env& env, RunInspector& inspector,
                                                const IndexEntry& run) {
  DLRUN_TRY(require_own(run.id, run.path, "send it to a server"));
  DLRUN_TRY_ASSIGN(const auto runs, single_runs_of(run));
  std::vector<IndexEntry> recorded;
  std::vector<std::filesystem::path> paths;
  for (const IndexEntry& one : runs) {
    if (!MlflowRecord(one.path).exists()) continue;
    recorded.push_back(one);
    paths.push_back(one.path);
  }
  const auto statuses = inspector.inspect_all(paths);
  std::vector<RunSyncReport> results;
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    const IndexEntry& one = recorded[i];
    auto report = sync_record(env, one, statuses[i]);
    if (!report && runs.size() == 1) return tl::unexpected<Error>(std::move(report.error()));
    // An error of one point does not keep the other points from being sent.
    if (!report)
      report = RunSyncReport{one.id, {.is_complete = false, .problem = report.error().message}};
    results.push_back(std::move(*report));
  }
  if (results.empty())
    return fail(Errc::kInvalid,
                "{} has no record for a server: its spec has no track.mlflow, or its job has not "
                "started",
                run.id);
  return results;
}

}  // namespace dlrun
