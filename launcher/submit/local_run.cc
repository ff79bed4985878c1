#include "launcher/submit/local_run.h"

#include <future>
#include <utility>

#include "common/files.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "launcher/plan/render.h"
#include "launcher/runs/journal.h"
#include "launcher/runs/lost_end.h"
#include "launcher/runs/provenance.h"
#include "launcher/runs/run_record.h"
#include "launcher/spec/sweep_points.h"
#include "launcher/submit/checks.h"
#include "launcher/submit/downloads.h"
#include "launcher/submit/environments.h"
#include "launcher/submit/local_run_notes.h"
#include "launcher/submit/recording.h"
#include "launcher/submit/submitting.h"
#include "launcher/submit/user_settings.h"

namespace dlrun {
namespace {

/// Removes the secrets on every return, because a lead that has never started cannot remove them.
struct SecretsRemoval {
  const std::filesystem::path& run;
  ~SecretsRemoval() { remove_secrets(run); }
};

/// Records the end of a run if lead did not: the script ended before it started lead, or lead was
/// killed.
Result<> record_end_if_missing(const std::filesystem::path& run, const ForegroundEnd& end) {
  DLRUN_TRY_ASSIGN(const auto record, read_events(run));
  if (record.ended) return {};
  const std::string how = end.signal != 0 ? fmt::format("was ended by {}", signal_name(end.signal))
                                          : fmt::format("ended with code {}", end.exit_code);
  const std::string message = record.has_events
                                  ? fmt::format("lead {} without a report", how)
                                  : fmt::format("the script {} before the ranks were started", how);
  DLRUN_TRY_ASSIGN(const auto written, write_lost_end(run, end.exit_code, message));
  return {};
}

/// Reports the differences between this run and the job of its spec.
void report_differences(const Context& context, Reporter& reporter, const Experiment& experiment) {
  for (const auto& note : {fewer_ranks_note(experiment.loaded, experiment.plan),
                           missing_gpu_note(experiment.loaded, context.env, "/dev")}) {
    if (note) reporter.note(*note);
  }
}

/// Fetches the job's downloads, builds its environments, records the run and runs it to its end.
/// The job must have passed check_job().
Result<std::pair<RunDirectory, ForegroundEnd>> record_and_run(const Context& context,
                                                              Reporter& reporter, const Job& job,
                                                              Provenance& provenance,
                                                              bool prints_to_stderr) {
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
  Submission submission;
  submission.token = random_hex(16);
  submission.job.cluster = kLocalCluster;
  submission.pid_namespace = own_pid_namespace();
  submission.argv = {"bash", (run.path / "job.sh").string()};
  DLRUN_TRY(write_submission(run.path, submission));
  const SecretsRemoval removal{run.path};  // declared before `child`, and so destroyed after it
  DLRUN_TRY(write_secrets(run.path, job.settings.secrets));
  const Env env = job_environment(context, run.path, submission.token, job.settings.secrets);
  std::vector<std::string> argv = submission.argv;
  if (prints_to_stderr) argv.insert(argv.begin(), {"bash", "-c", "exec \"$@\" >&2", "bash"});
  DLRUN_TRY_ASSIGN(auto child,
                   ForegroundProcess::start(argv, env, folder, OnSignal::kTermThenKill));
  submission.job.id = local_job_id(child.pid()).value_or("");
  submission.state = Submission::State::kSubmitted;
  DLRUN_TRY(write_submission(run.path, submission));
  reporter.note(fmt::format("{} runs here; directory {}", run.id, printable(run.path.string())));
  report_differences(context, reporter, experiment);
  // git may still inspect the code, and the run does not wait for git. With track.mlflow, lead
  // sends the commit to MLflow as soon as provenance.json exists.
  auto written = std::async(std::launch::async, [&] { return provenance.write(run.path); });
  const auto end = child.wait();
  remove_secrets(run.path);
  warn_of_missing_provenance(reporter, written.get());
  if (!end) return tl::unexpected(end.error());
  if (end->exit_code != 0) DLRUN_TRY(record_end_if_missing(run.path, *end));
  return std::pair(run, *end);
}

}  // namespace

Result<LocalResult> run_on_this_machine(const Context& context, Reporter& reporter,
                                        const SpecOptions& options,
                                        const LocalRunChoices& choices) {
  // git inspects the code in the background while dlrun plans.
  Provenance provenance(folder_of(context, options.file), context.env, context.argv,
                        context.tools.hash);
  DLRUN_TRY_ASSIGN(auto prepared, prepare_spec_or_point(context, reporter, options, Target::kLocal,
                                                        choices.point));
  if (prepared.is_sweep()) {
    return fail(Errc::kUsage,
                "{}: is a sweep of {} points, and this machine has no queue for them; --point N "
                "runs one of them here",
                printable(prepared.loaded.file), count_points(prepared.loaded.spec.sweep));
  }
  std::string script = render_local_script(prepared.plan);
  if (choices.is_dry_run) return LocalResult(LocalScript{std::move(script)});
  RunInspector inspector(context.env, known_servers(context));
  Job job = job_of_experiment(std::move(prepared), std::move(script));
  DLRUN_TRY(check_job(context, reporter, inspector, job, nullptr, NextStep::kDirectStart));
  DLRUN_TRY_ASSIGN(const auto run_and_end,
                   record_and_run(context, reporter, job, provenance, choices.prints_to_stderr));
  DLRUN_TRY_ASSIGN(auto status, inspector.inspect(run_and_end.first.path));
  return LocalResult(LocalRun{run_and_end.first, run_and_end.second, std::move(status)});
}

}  // namespace dlrun
