// The journal makes a submission idempotent: the intent with a token is on the disk before sbatch
// starts, and the job's comment holds the token. If the answer is lost, dlrun looks the token up.

#include "launcher/submit/submit_once.h"

#include <utility>

#include "common/files.h"
#include "common/interrupt.h"
#include "common/text.h"

namespace dlrun {
namespace {

bool is_outcome_unknown(const Error& error) {
  return error.code == Errc::kUnavailable || error.code == Errc::kTimeout ||
         error.code == Errc::kInterrupted;
}

}  // namespace

Result<Submission> submit_once(const Context& context, const RunDirectory& run,
                               const SbatchSettings& settings, Executor& executor,
                               const Interrupt& interrupt, const std::string& token) {
  Submission submission;
  submission.token = token.empty() ? random_hex(16) : token;
  submission.job.cluster = settings.clusters.value_or("");
  submission.server = settings.server;
  submission.output = settings.log_pattern.value_or("");
  submission.chdir = settings.chdir.value_or("");
  DLRUN_TRY_ASSIGN(const auto request,
                   submit_request(context, settings, run.path, submission.token));
  if (!settings.server) submission.argv = {"sbatch", "--parsable"};
  submission.argv.insert(submission.argv.end(), request.options.begin(), request.options.end());
  submission.argv.push_back(request.script.string());

  const auto lock = SubmissionLock::hold(run.path);
  if (!settings.is_array) DLRUN_TRY(write_secrets(run.path, settings.secrets));
  DLRUN_TRY(write_submission(run.path, submission));
  auto job = executor.submit(request);
  if (!job && is_outcome_unknown(job.error())) {
    auto settled = settle(run.path, submission, executor);
    if (!settled) {
      return fail(
          interrupt.requested() ? Errc::kInterrupted : Errc::kUnavailable,
          "{}\nWhether Slurm took the job is not known, because Slurm does not answer now. "
          "`dlrun status {}` finds it out later; submitting again before that could run the "
          "job twice",
          // `dlrun status` of a sweep finds out the outcome for all its arrays.
          job.error().message, run.id.substr(0, run.id.find('/')));
    }
    if (settled->state == Submission::State::kSubmitted) return std::move(*settled);
    if (interrupt.requested()) {
      remove_secrets(run.path);
      return fail(Errc::kInterrupted, "interrupted; Slurm did not take the job, nothing is queued");
    }
    // The controller answers and does not know the job.
    job = executor.submit(request);
  }
  if (!job) {
    if (!is_outcome_unknown(job.error())) {
      remove_secrets(run.path);
      submission.state = Submission::State::kRefused;
      submission.message = job.error().message;
      DLRUN_TRY(write_submission(run.path, submission));
    }
    return tl::unexpected(job.error());
  }
  submission.job.id = job->id;
  if (!job->cluster.empty()) submission.job.cluster = job->cluster;
  submission.state = Submission::State::kSubmitted;
  if (auto written = write_submission(run.path, submission); !written) {
    return fail(written.error().code,
                "the job was submitted as {}, but the run's journal could not be written: {}",
                job->id, written.error().message);
  }
  return submission;
}

}  // namespace dlrun
