// The journal makes a submission idempotent: the intent with a token is on the disk before sbatch
// starts, and the job's comment holds the token. If the answer is lost, dlrun looks the token up.

#include "launcher/submit/submit_once.h"

#include <chrono>
#include <thread>
#include <utility>

#include "common/files.h"
#include "common/interrupt.h"
#include "common/text.h"
#include "launcher/runs/follow_ups.h"

namespace dlrun {
namespace {

bool is_outcome_unknown(const Error& error) {
  return error.code == Errc::kUnavailable || error.code == Errc::kTimeout ||
         error.code == Errc::kInterrupted;
}

/// Returns the intent to submit a job, without its command line.
Submission intent_of(const SbatchSettings& settings, const std::string& token) {
  Submission submission;
  if (settings.chain && !settings.chain->is_follow_up())
    submission.chain_job_count = settings.chain->job_count;
  submission.token = token.empty() ? random_hex(16) : token;
  submission.job.cluster = settings.clusters.value_or("");
  submission.server = settings.server;
  submission.log_pattern = settings.log_pattern.value_or("");
  submission.error_pattern = settings.error_pattern.value_or("");
  submission.chdir = settings.chdir.value_or("");
  submission.dependency = settings.dependency.value_or("");
  return submission;
}

/// Finds out whether Slurm has the job although its submission failed with `error`. If the error is
/// an unconfirmed refusal, looks for the job twice, because slurmrestd may still be passing the job
/// on to the controller.
Result<Submission> find_outcome_after(const Error& error, const std::filesystem::path& journal,
                                      const Submission& submission, Executor& executor) {
  constexpr std::chrono::seconds kPause{2};
  auto outcome = find_and_record_outcome(journal, submission, executor);
  if (!error.is_unconfirmed || !outcome || outcome->state == Submission::State::kSubmitted)
    return outcome;
  std::this_thread::sleep_for(kPause);
  return find_and_record_outcome(journal, submission, executor);
}

}  // namespace

Result<Submission> submit_once(const Context& context, const RunDirectory& run,
                               const SbatchSettings& settings, Executor& executor,
                               const Interrupt& interrupt, const std::string& token) {
  const bool is_follow_up = settings.chain && settings.chain->is_follow_up();
  const auto journal_folder =
      is_follow_up ? follow_up_path(run.path, settings.chain->number) : run.path;
  Submission submission = intent_of(settings, token);
  DLRUN_TRY_ASSIGN(const auto request,
                   request_to_submit(context, settings, run.path, submission.token));
  if (!settings.server) submission.argv = {"sbatch", "--parsable"};
  submission.argv.insert(submission.argv.end(), request.options.begin(), request.options.end());
  submission.argv.push_back(request.script.string());

  if (is_follow_up) DLRUN_TRY(make_private_directories(journal_folder));
  const auto lock = SubmissionLock::take_if_free(journal_folder);
  if (!settings.is_array && !is_follow_up) DLRUN_TRY(write_secrets(run.path, settings.secrets));
  DLRUN_TRY(write_submission(journal_folder, submission));
  auto job = executor.submit(request);
  bool was_repeated = false;
  while (!job &&
         (job.error().is_unconfirmed || (is_outcome_unknown(job.error()) && !was_repeated))) {
    auto outcome = find_outcome_after(job.error(), journal_folder, submission, executor);
    if (!outcome) {
      return fail(interrupt.requested() ? Errc::kInterrupted : Errc::kUnavailable,
                  "{}\nWhether Slurm took the job is not known, because dlrun cannot look for it "
                  "now: {}\n`dlrun status {}` finds it out later; submitting again before that "
                  "could run the job twice",
                  // `dlrun status` of a sweep finds out the outcome for all its arrays.
                  job.error().message, outcome.error().message, run.id.substr(0, run.id.find('/')));
    }
    if (outcome->state == Submission::State::kSubmitted) return std::move(*outcome);
    if (job.error().is_unconfirmed) break;  // Slurm does not know the job: the refusal counts
    if (interrupt.requested()) {
      if (!is_follow_up) remove_secrets(run.path);
      return fail(Errc::kInterrupted, "interrupted; Slurm did not take this job: it is not queued");
    }
    // The controller answers and does not know the job.
    job = executor.submit(request);
    was_repeated = true;
  }
  if (!job) {
    if (!is_outcome_unknown(job.error())) {
      if (!is_follow_up) remove_secrets(run.path);
      submission.state = Submission::State::kRefused;
      submission.message = job.error().message;
      DLRUN_TRY(write_submission(journal_folder, submission));
    }
    return tl::unexpected(job.error());
  }
  submission.job.id = job->id;
  if (!job->cluster.empty()) submission.job.cluster = job->cluster;
  submission.state = Submission::State::kSubmitted;
  if (auto written = write_submission(journal_folder, submission); !written) {
    return fail(written.error().code,
                "the job was submitted as {}, but the run's journal could not be written: {}",
                job->id, written.error().message);
  }
  return submission;
}

}  // namespace dlrun
