#include "launcher/submit/allocation_run.h"

#include <utility>

#include "common/job_id.h"
#include "common/text.h"
#include "launcher/executors/detached.h"
#include "launcher/executors/foreground.h"
#include "launcher/executors/slurm_conf.h"
#include "launcher/plan/render.h"
#include "launcher/runs/journal.h"
#include "launcher/spec/sweep_points.h"
#include "launcher/submit/checks.h"
#include "launcher/submit/downloads.h"
#include "launcher/submit/environments.h"
#include "launcher/submit/held_token.h"
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
  submission.pid_namespace = own_pid_namespace();
  submission.argv = {"bash", (run.path / "job.sh").string()};
  DLRUN_TRY(write_submission(run.path, submission));
  DLRUN_TRY(write_secrets(run.path, job.settings.secrets));
  Env env = job_environment(context, run.path, submission.token, job.settings.secrets);
  set_allocation_variables(env, job.experiment->plan, allocation,
                           configured_cluster_name(context.env));
  DLRUN_TRY_ASSIGN(auto process,
                   DetachedProcess::start(submission.argv, env, folder, run.path / "local.out"));
  submission.job.id = local_job_id(process.pid()).value_or("");
  submission.state = Submission::State::kSubmitted;
  DLRUN_TRY(write_submission(run.path, submission));
  return process.let_run();
}

/// Returns the id of the job that has the allocation: choices.job, or else the job of this shell.
/// If choices.job is not set and this shell is in no allocation, returns "" for a dry run, and
/// otherwise fails with kUsage. Also fails with kUsage if choices.job is set and another machine
/// has sent this call with a token.
Result<std::string> allocation_job_id(Context& context, const AllocationRunChoices& choices) {
  if (!choices.job) {
    auto job = context.env.get_or("SLURM_JOB_ID", "");
    if (!job.empty() || choices.is_dry_run) return job;
    return fail(Errc::kUsage,
                "--here: this shell is not in an allocation (SLURM_JOB_ID is not set): call salloc "
                "first, or name a running job of yours: dlrun submit --in JOBID");
  }
  DLRUN_TRY_ASSIGN(const auto token, take_submission_token(context.env));
  if (!token) return *choices.job;
  return fail(
      Errc::kUsage,
      "--in: cannot be used with -H: after a cut connection, the repeated command could start "
      "a second run; log in to the host, and start the run there");
}

/// Fetches the job's downloads, builds its environments, records the run and starts its script.
/// The job must have passed check_job().
Result<RunDirectory> record_and_start(const Context& context, Reporter& reporter, const Job& job,
                                      const Allocation& allocation, Provenance& provenance) {
  const Experiment& experiment = *job.experiment;
  DLRUN_TRY(fetch_downloads(reporter, experiment.loaded));
  DLRUN_TRY(build_environments(context, reporter, experiment));
  DLRUN_TRY(prepare_runs_folder(context, reporter, job.runs_dir, experiment.plan.uses_trainer()));
  DLRUN_TRY_ASSIGN(auto run, record_run(context, reporter, job));
  std::string folder = experiment.plan.folder;
  if (experiment.plan.takes_snapshot) {
    DLRUN_TRY_ASSIGN(folder,
                     copy_code_into_run(context, experiment.plan.folder, job.runs_dir, run));
  }
  auto started = start_script(context, job, allocation, run, folder);
  if (!started) {
    remove_secrets(run.path);
    return tl::unexpected(std::move(started.error()));
  }
  provenance.set_image(job.image);
  write_provenance(reporter, provenance, run.path);
  reporter.note(fmt::format("{} starts in job {}, which ends at {}; directory {}", run.id,
                            allocation.job, printable(allocation.end),
                            printable(run.path.string())));
  return run;
}

}  // namespace

Result<> check_fit(const Experiment& experiment, const Allocation& allocation) {
  if (experiment.is_sweep()) {
    return fail(Errc::kUsage,
                "{}: is a sweep of {} points, and an allocation has no queue for them; submit the "
                "sweep, or start one point with `dlrun run --here --point N` in a shell of the "
                "allocation, or remove the sweep with --set sweep=null",
                printable(experiment.loaded.file), count_points(experiment.loaded.spec.sweep));
  }
  auto problems = unfulfilled_requests(experiment, allocation);
  if (problems.empty()) return {};
  return fail(Errc::kInvalid, std::move(problems));
}

Result<AllocationResult> start_in_allocation(Context& context, Reporter& reporter,
                                             RunInspector& inspector, SpecOptions options,
                                             const AllocationRunChoices& choices,
                                             Provenance& provenance) {
  DLRUN_TRY_ASSIGN(auto job_id, allocation_job_id(context, choices));
  options.uses_existing_allocation = true;
  DLRUN_TRY_ASSIGN(auto experiment, prepare_experiment(context, reporter, options, Target::kSlurm));
  if (choices.point) {
    DLRUN_TRY_ASSIGN(experiment, prepare_point(reporter, std::move(experiment), *choices.point));
  }
  DLRUN_TRY_ASSIGN(auto script, render_script(experiment.plan));
  if (choices.is_dry_run) return AllocationScript{std::move(job_id), std::move(script)};
  DLRUN_TRY_ASSIGN(const auto allocation, find_allocation(context, job_id));
  DLRUN_TRY(check_fit(experiment, allocation));
  Job job = job_of_experiment(std::move(experiment), std::move(script));
  DLRUN_TRY(check_job(context, reporter, inspector, job, nullptr, NextStep::kDirectStart));
  DLRUN_TRY_ASSIGN(auto run, record_and_start(context, reporter, job, allocation, provenance));
  return StartedRun{std::move(job_id), std::move(run)};
}

}  // namespace dlrun
