#include "cli/submission.h"

#include <pwd.h>
#include <unistd.h>

#include <utility>

#include "cli/interrupt.h"
#include "cli/secrets.h"
#include "common/text.h"
#include "launcher/executors/scrub.h"
#include "launcher/runs/log_file.h"

namespace dlrun {
namespace {

/// A path inside an output pattern: '%' starts a field there, and '\' cannot be expressed.
Result<std::string> escape_pattern(const std::string& path) {
  std::string result;
  for (const char c : path) {
    if (c == '\\' || is_control(c)) {
      return fail(Errc::kInvalid,
                  "the run directory's path holds a character that sbatch's --output cannot express: {}; choose "
                  "another with --runs",
                  printable(path));
    }
    result += c;
    if (c == '%') result += c;
  }
  return result;
}

bool is_outcome_open(const Error& error) {
  return error.code == Errc::kUnavailable || error.code == Errc::kTimeout || error.code == Errc::kInterrupted;
}

}  // namespace

Result<std::vector<std::string>> sbatch_words(const std::filesystem::path& run, const std::string& token,
                                              const SubmitPlan& plan) {
  std::vector<std::string> words = {"--comment=dlrun:" + token + (plan.comment ? " " + *plan.comment : "")};
  if (plan.chdir) words.push_back("--chdir=" + *plan.chdir);
  if (plan.dependency) words.push_back("--dependency=" + *plan.dependency);
  if (plan.clusters) words.push_back("--clusters=" + *plan.clusters);
  if (!plan.log_pattern) {
    const auto folder = escape_pattern(run.string());
    if (!folder) return tl::unexpected(folder.error());
    words.push_back(fmt::format("--output={}/{}", *folder, plan.is_array ? "%a/slurm-%A_%a.out" : "slurm-%j.out"));
  }
  return words;
}

Env job_environment(const Cli& cli, const std::filesystem::path& run, const std::string& token,
                    const std::vector<SecretValue>& secrets) {
  Env env = scrubbed_for_slurm(cli.env, munge_is_available());
  hide_secrets(env, secrets);
  env.set("DLRUN_RUN", run.string());
  env.set("DLRUN_TOKEN", token);
  return env;
}

Result<SubmitRequest> submit_request(const Cli& cli, const std::filesystem::path& run, const std::string& token,
                                     const SubmitPlan& plan) {
  auto words = sbatch_words(run, token, plan);
  if (!words) return tl::unexpected(words.error());
  SubmitRequest request;
  request.script = run / "job.sh";
  request.options = std::move(*words);
  request.directory = plan.directory;
  request.env = job_environment(cli, run, token, plan.secrets);
  return request;
}

Result<SubmitOutcome> submit_once(const Cli& cli, const RunDirectory& run, const SubmitPlan& plan, Executor& executor) {
  Submission submission;
  submission.token = random_hex(16);
  submission.job.cluster = plan.clusters.value_or("");
  submission.server = plan.server;
  const auto request = submit_request(cli, run.path, submission.token, plan);
  if (!request) return tl::unexpected(request.error());
  if (!plan.server) submission.argv = {"sbatch", "--parsable"};
  submission.argv.insert(submission.argv.end(), request->options.begin(), request->options.end());
  submission.argv.push_back(request->script.string());

  const Interrupt interrupt;
  const auto lock = SubmissionLock::hold(run.path);
  if (!plan.is_array) DLRUN_TRY(write_secrets(run.path, plan.secrets));
  DLRUN_TRY(write_submission(run.path, submission));
  auto job = executor.submit(*request);
  if (!job && is_outcome_open(job.error())) {
    auto settled = settle(run.path, submission, executor);
    if (!settled) {
      return fail(
          interrupt.requested() ? Errc::kInterrupted : Errc::kUnavailable,
          "{}\nWhether Slurm took the job is not known, and it cannot be asked now. `dlrun status {}` settles it; "
          "submitting again before that could run the job twice",
          job.error().message, run.id.substr(0, run.id.find('/')));  // of a sweep's array the sweep settles it
    }
    if (settled->state == Submission::State::kSubmitted)
      return SubmitOutcome{std::move(*settled), interrupt.requested()};
    if (interrupt.requested()) {
      remove_secrets(run.path);
      return fail(Errc::kInterrupted, "interrupted; Slurm did not take the job, nothing is queued");
    }
    // The controller answers and knows no such job.
    job = executor.submit(*request);
  }
  if (!job) {
    if (!is_outcome_open(job.error())) {
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
  if (plan.log_pattern && plan.is_array) {  // each task's own: its journal expands it
    submission.log = (plan.directory / *plan.log_pattern).lexically_normal().string();
  } else if (plan.log_pattern) {
    const struct passwd* user = ::getpwuid(::getuid());
    const auto log = expand_output_pattern(*plan.log_pattern, job->id, run.name, user != nullptr ? user->pw_name : "");
    if (log) submission.log = (plan.directory / *log).lexically_normal().string();
  }
  if (auto written = write_submission(run.path, submission); !written) {
    return fail(written.error().code, "the job was submitted as {}, but the run's journal could not be written: {}",
                job->id, written.error().message);
  }
  return SubmitOutcome{std::move(submission), interrupt.requested()};
}

}  // namespace dlrun
