#include "launcher/submit/allocation_run.h"

#include <utility>

#include "common/job_id.h"
#include "common/text.h"
#include "launcher/executors/detached.h"
#include "launcher/executors/foreground.h"
#include "launcher/executors/slurm_conf.h"
#include "launcher/runs/journal.h"
#include "launcher/spec/sweep_points.h"
#include "launcher/submit/downloads.h"
#include "launcher/submit/recording.h"
#include "launcher/submit/submitting.h"

namespace dlrun {
namespace {

/// Starts the script of the recorded run. Records the process before it runs.
Result<> start_script(const Context& context, const Job& job, const Allocation& allocation,
                      const RunDirectory& run, const std::string& folder) {
  Submission submission;
  submission.token = random_hex(16);
  submission.job.cluster = kLocalCluster;
  submission.argv = {"bash", (run.path / "job.sh").string()};
  DLRUN_TRY(write_submission(run.path, submission));
  DLRUN_TRY(write_secrets(run.path, job.settings.secrets));
  Env env = job_environment(context, run.path, submission.token, job.settings.secrets);
  set_allocation_variables(env, job.experiment->plan, allocation, slurm_cluster_name(context.env));
  DLRUN_TRY_ASSIGN(auto process,
                   DetachedProcess::start(submission.argv, env, folder, run.path / "local.out"));
  submission.job.id = local_job_id(process.pid()).value_or("");
  submission.state = Submission::State::kSubmitted;
  DLRUN_TRY(write_submission(run.path, submission));
  return process.release();
}

}  // namespace

Result<> check_fit(const Experiment& experiment, const Allocation& allocation) {
  if (experiment.is_sweep()) {
    return fail(Errc::kUsage,
                "{}: is a sweep of {} points, and an allocation has no queue for them; submit the "
                "sweep, or remove it with --set sweep=null",
                experiment.loaded.file, count_points(experiment.loaded.spec.sweep));
  }
  auto problems = misfits(experiment, allocation);
  if (problems.empty()) return {};
  return fail(Errc::kInvalid, std::move(problems));
}

Result<RunDirectory> start_in_allocation(const Context& context, Reporter& reporter, const Job& job,
                                         const Allocation& allocation, Provenance& provenance) {
  const Experiment& experiment = *job.experiment;
  DLRUN_TRY(fetch_downloads(reporter, experiment.loaded));
  DLRUN_TRY(stage(context, reporter, job.runs_dir));
  DLRUN_TRY_ASSIGN(auto run, record_run(context, reporter, job));
  std::string folder = experiment.plan.folder;
  if (experiment.plan.snapshot) {
    DLRUN_TRY_ASSIGN(folder, snapshot_for(context, experiment.plan.folder, job.runs_dir, run));
  }
  auto started = start_script(context, job, allocation, run, folder);
  if (!started) {
    remove_secrets(run.path);
    return tl::unexpected(std::move(started.error()));
  }
  provenance.set_image(job.image);
  write_provenance(reporter, provenance, run.path);
  reporter.note(fmt::format("{} starts in job {}, which ends at {}; directory {}", run.id,
                            allocation.job, printable(allocation.end), run.path.string()));
  return run;
}

}  // namespace dlrun
