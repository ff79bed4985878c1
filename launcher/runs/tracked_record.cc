#include "launcher/runs/tracked_record.h"

#include "common/log.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/run_record.h"
#include "launcher/runs/sweep_record.h"

namespace dlrun {
namespace {

Result<TrackedRun> sync_record(const Env& env, const IndexEntry& run) {
  const MlflowRecord record(run.path);
  DLRUN_TRY_ASSIGN(const auto made, record.read());
  if (!has_end(run.path))
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
  return TrackedRun{run.id, record.sync(env, token, [] { return true; })};
}

}  // namespace

Result<std::vector<TrackedRun>> sync_records(const Env& env, const IndexEntry& run) {
  DLRUN_TRY(require_own(run.id, run.path, "sent to a server"));
  DLRUN_TRY_ASSIGN(const auto runs, runs_of(run));
  std::vector<TrackedRun> done;
  for (const IndexEntry& one : runs) {
    if (!MlflowRecord(one.path).exists()) continue;
    auto tracked = sync_record(env, one);
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
