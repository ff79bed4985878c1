#include "launcher/submit/follow_up_jobs.h"

#include <utility>

#include "common/interrupt.h"
#include "common/untrusted_file.h"
#include "launcher/runs/follow_ups.h"
#include "launcher/submit/sbatch_settings.h"
#include "launcher/submit/submit_once.h"

namespace dlrun {
namespace {

/// Submits the follow-up job whose number is in settings.chain, unless Slurm has it already. Fails
/// with kRefused if Slurm refused it in an earlier call.
Result<Submission> submit_one(const Context& context, Executor& executor, const RunDirectory& run,
                              const SbatchSettings& settings, const Interrupt& interrupt) {
  const auto journal = follow_up_path(run.path, settings.chain->number);
  DLRUN_TRY_ASSIGN(auto earlier, read_submission(journal));
  if (!earlier) return submit_once(context, run, settings, executor, interrupt);
  if (earlier->state == Submission::State::kRefused)
    return fail(Errc::kRefused, "{}", earlier->message);
  DLRUN_TRY_ASSIGN(auto outcome, find_and_record_outcome(journal, *earlier, executor));
  if (outcome.state == Submission::State::kSubmitted) return outcome;
  return submit_once(context, run, settings, executor, interrupt, outcome.token);
}

}  // namespace

FollowUpJobs submit_follow_ups(const Context& context, Reporter& reporter, Executor& executor,
                               const RunDirectory& run, const Submission& first,
                               const SbatchSettings& settings) {
  FollowUpJobs sent;
  const Interrupt interrupt;
  std::string previous_job = first.job.id;
  for (std::int64_t number = 1; number < first.chain_job_count; ++number) {
    SbatchSettings job_settings = settings;
    job_settings.chain = ChainPosition{first.chain_job_count, number, first.token, first.job.id};
    job_settings.dependency = "afterany:" + previous_job;
    auto submission = submit_one(context, executor, run, job_settings, interrupt);
    sent.is_interrupted = interrupt.requested();
    if (!submission) {
      reporter.warning(fmt::format(
          "retry.chain: job {} of {} was not queued, so the run has {} job{} now: {}", number + 1,
          first.chain_job_count, number, number == 1 ? "" : "s", submission.error().message));
      return sent;
    }
    previous_job = submission->job.id;
    sent.submissions.push_back(std::move(*submission));
    if (sent.is_interrupted) return sent;
  }
  return sent;
}

Result<FollowUpJobs> continue_follow_ups(const Context& context, Reporter& reporter,
                                         Executor& executor, const RunDirectory& run,
                                         const Submission& first) {
  if (first.chain_job_count == 0) return FollowUpJobs();
  DLRUN_TRY_ASSIGN(auto settings, read_sbatch_settings(run.path));
  DLRUN_TRY_ASSIGN(const auto script,
                   read_untrusted(run.path / "job.sh", kScriptLimitBytes, Links::kRefuse));
  // Only the names are needed, because the first job's submission has written the values to the
  // run's file of secrets.
  for (auto& name : parse_script_requests(script, "job.sh").secrets)
    settings.secrets.push_back({std::move(name), ""});
  return submit_follow_ups(context, reporter, executor, run, first, settings);
}

}  // namespace dlrun
