// Submits one job. earlier_submission.cc, sweep_submission.cc and resubmission.cc define the other
// functions of the header.

#include "launcher/submit/submitting.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "launcher/runs/carried_spec.h"
#include "launcher/submit/downloads.h"
#include "launcher/submit/environments.h"
#include "launcher/submit/follow_up_jobs.h"
#include "launcher/submit/recording.h"
#include "launcher/submit/refusal.h"
#include "launcher/submit/sbatch_settings.h"
#include "launcher/submit/submit_once.h"

namespace dlrun {
namespace {

/// Returns the run of the job: the run that an earlier call with the same token recorded, or else a
/// new one. If the earlier run has a copy of the code, sets job.settings.chdir to the job's folder
/// in this copy.
Result<RunDirectory> find_or_record_run(const Context& context, Reporter& reporter, Job& job,
                                        HeldToken* token) {
  if (token == nullptr || token->run().empty()) return record_run(context, reporter, job, token);
  const auto& path = token->run();
  const std::string id = path.filename().string();
  DLRUN_TRY_ASSIGN(const auto journal, read_submission(path));
  if (journal && !journal->chdir.empty()) job.settings.chdir = journal->chdir;
  return RunDirectory{id, name_of_id(id), path, ""};
}

bool is_absent(const std::string& path) {
  return ::access(path.c_str(), F_OK) != 0;
}

/// Returns true if the job cannot run without the installed trainer. A script that the user gave
/// may contain the path of a dlrun-trainer, usually of the copy that dlrun keeps beside the runs.
/// Its job then needs the installed trainer only if no file exists at this path. An unedited script
/// carries its spec, and the spec says whether the job uses the trainer. In any other given script,
/// dlrun searches the lines for paths of dlrun-trainer; if it finds none, the plan decides.
bool needs_trainer(const Job& job) {
  const bool plan_uses_trainer = job.experiment && job.experiment->plan.uses_trainer();
  if (!job.has_given_script()) return plan_uses_trainer;
  if (job.source == Job::Source::kScript && job.experiment && is_unedited(job.script))
    return plan_uses_trainer && is_absent(job.experiment->inputs.trainer_path);
  const auto& trainers = job.requests.trainers;
  if (trainers.empty()) return plan_uses_trainer;
  return std::any_of(trainers.begin(), trainers.end(), is_absent);
}

}  // namespace

std::vector<std::string> job_ids_of(const Submitted& submitted) {
  std::vector<std::string> jobs;
  for (const Submission& submission : submitted.submissions) jobs.push_back(submission.job.id);
  return jobs;
}

void warn_of_missing_provenance(Reporter& reporter, const Result<>& written) {
  if (written) return;
  reporter.warning(
      fmt::format("the run's provenance.json could not be written: {}", written.error().message));
}

void write_provenance(Reporter& reporter, Provenance& provenance,
                      const std::filesystem::path& run) {
  warn_of_missing_provenance(reporter, provenance.write(run));
}

Result<Submitted> submit_job(const Context& context, Reporter& reporter, RunInspector& inspector,
                             Job job, const Checked& checked, Provenance& provenance,
                             HeldToken* token, const OnSubmitted& on_submitted) {
  // A repeated run needs no plan: its script contains the path of the agent, and the run's copy of
  // the code already exists.
  const bool repeats_run = job.source == Job::Source::kRun;
  const LaunchPlan* plan = !repeats_run && job.experiment ? &job.experiment->plan : nullptr;
  if (job.experiment) {
    DLRUN_TRY(fetch_downloads(reporter, job.experiment->loaded));
    DLRUN_TRY(build_environments(context, reporter, *job.experiment));
  }
  const bool is_agentless = plan != nullptr && plan->agent.empty();
  if (!is_agentless)
    DLRUN_TRY(prepare_runs_folder(context, reporter, job.runs_dir, needs_trainer(job)));
  for (const LogFolderFindings& logs : checked.log_folders)
    DLRUN_TRY(make_missing_log_folders(logs));
  const bool was_recorded_before = token != nullptr && !token->run().empty();
  DLRUN_TRY_ASSIGN(auto run, find_or_record_run(context, reporter, job, token));
  if (plan != nullptr && plan->takes_snapshot && !was_recorded_before) {
    DLRUN_TRY_ASSIGN(job.settings.chdir,
                     copy_code_into_run(context, job.code_dir, job.runs_dir, run));
  }
  // If this call is interrupted, a later call with the same token reads the settings and submits
  // the missing jobs of the chain.
  if (job.settings.chain) DLRUN_TRY(write_sbatch_settings(run.path, job.settings));
  std::optional<Interrupt> interrupt(std::in_place);
  Executor& executor = inspector.executor_of(job.settings.server);
  auto submission = submit_once(context, run, job.settings, executor, *interrupt,
                                token != nullptr ? token->text() : "");
  const bool is_interrupted = interrupt->requested();
  interrupt.reset();
  FollowUpJobs later;
  if (submission && !is_interrupted)
    later = submit_follow_ups(context, reporter, executor, run, *submission, job.settings);
  provenance.set_image(job.image);
  write_provenance(reporter, provenance, run.path);
  if (!submission)
    return tl::unexpected(explained_refusal(context, job, executor, std::move(submission.error())));
  if (on_submitted) DLRUN_TRY(on_submitted(run));
  Submitted submitted;
  submitted.job = std::move(job);
  submitted.run = std::move(run);
  submitted.submissions.push_back(std::move(*submission));
  submitted.follow_ups = std::move(later.submissions);
  submitted.is_interrupted = is_interrupted || later.is_interrupted;
  return submitted;
}

}  // namespace dlrun
