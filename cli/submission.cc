// The journal makes a submission idempotent: the intent with a token is on the disk before sbatch
// starts, and the job's comment holds the token. A lost answer is resolved by looking the token up.

#include "cli/submission.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "cli/interrupt.h"
#include "cli/secrets.h"
#include "common/files.h"
#include "common/quoting.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "launcher/executors/scrub.h"
#include "launcher/runs/json_read.h"
#include "launcher/runs/log_file.h"

namespace dlrun {
namespace {

constexpr const char* kSubmitPlan = "submit.json";

/// Returns the run's folder, escaped for an output pattern.
Result<std::string> pattern_of(const std::filesystem::path& run) {
  const std::string path = run.string();
  if (std::any_of(path.begin(), path.end(), [](char c) { return c == '\\' || is_control(c); })) {
    return fail(Errc::kInvalid,
                "the run directory's path holds a character that sbatch's --output cannot express: "
                "{}; choose another "
                "with --runs",
                printable(path));
  }
  return escape_pattern(path);
}

bool is_outcome_open(const Error& error) {
  return error.code == Errc::kUnavailable || error.code == Errc::kTimeout ||
         error.code == Errc::kInterrupted;
}

}  // namespace

Result<std::vector<std::string>> sbatch_words(const std::filesystem::path& run,
                                              const std::string& token, const SubmitPlan& plan) {
  std::vector<std::string> words = {"--comment=dlrun:" + token +
                                    (plan.comment ? " " + *plan.comment : "")};
  if (plan.job_name) words.push_back("--job-name=" + *plan.job_name);
  if (plan.chdir) words.push_back("--chdir=" + *plan.chdir);
  if (plan.array_tasks) words.push_back("--array=" + *plan.array_tasks);
  if (plan.dependency) words.push_back("--dependency=" + *plan.dependency);
  if (plan.exclude) words.push_back("--exclude=" + *plan.exclude);
  if (plan.clusters) words.push_back("--clusters=" + *plan.clusters);
  if (plan.log_pattern) {
    // A relative path in the script refers to the folder that it names, not to the copy of
    // the code.
    if (plan.chdir) words.push_back("--output=" + *plan.log_pattern);
  } else {
    const auto folder = pattern_of(run);
    if (!folder) return tl::unexpected(folder.error());
    words.push_back(fmt::format("--output={}/{}", *folder,
                                plan.is_array ? "%a/slurm-%A_%a.out" : "slurm-%j.out"));
  }
  return words;
}

Result<> write_submit_plan(const std::filesystem::path& sweep, const SubmitPlan& plan) {
  nlohmann::ordered_json json;
  if (plan.server)
    json["server"] = {{"url", plan.server->url}, {"token_file", plan.server->token_file}};
  json["directory"] = plan.directory.string();
  const auto add = [&](const char* key, const std::optional<std::string>& value) {
    if (value) json[key] = *value;
  };
  add("clusters", plan.clusters);
  add("output", plan.log_pattern);
  add("comment", plan.comment);
  add("chdir", plan.chdir);
  add("dependency", plan.dependency);
  add("exclude", plan.exclude);
  return write_file_atomic(sweep / kSubmitPlan, json_read::dump(json) + "\n");
}

Result<SubmitPlan> read_submit_plan(const std::filesystem::path& sweep) {
  constexpr std::size_t kLimit = 1U << 20U;
  const auto path = sweep / kSubmitPlan;
  const auto text = read_untrusted(path, kLimit, Links::kRefuse);
  if (!text) return tl::unexpected(text.error());
  const auto json = json_read::object_of(*text);
  if (!json) return fail(Errc::kInvalid, "{}: is damaged: expected a JSON object", path.string());
  SubmitPlan plan;
  if (const auto server = json->find("server"); server != json->end() && server->is_object())
    plan.server =
        RestServer{json_read::text(*server, "url"), json_read::text(*server, "token_file")};
  plan.directory = json_read::text(*json, "directory");
  const auto get = [&](const char* key) {
    return json->contains(key) ? std::optional(json_read::text(*json, key)) : std::nullopt;
  };
  plan.clusters = get("clusters");
  plan.log_pattern = get("output");
  plan.comment = get("comment");
  plan.chdir = get("chdir");
  plan.dependency = get("dependency");
  plan.exclude = get("exclude");
  return plan;
}

Env job_environment(const Cli& cli, const std::filesystem::path& run, const std::string& token,
                    const std::vector<SecretValue>& secrets) {
  Env env = scrubbed_for_slurm(cli.env, munge_is_available());
  hide_secrets(env, secrets);
  env.set("DLRUN_RUN", run.string());
  env.set("DLRUN_TOKEN", token);
  return env;
}

Result<SubmitRequest> submit_request(const Cli& cli, const std::filesystem::path& run,
                                     const std::string& token, const SubmitPlan& plan) {
  auto words = sbatch_words(run, token, plan);
  if (!words) return tl::unexpected(words.error());
  SubmitRequest request;
  request.script = run / "job.sh";
  request.options = std::move(*words);
  request.directory = plan.directory;
  request.env = job_environment(cli, run, token, plan.secrets);
  return request;
}

Result<SubmitOutcome> submit_once(const Cli& cli, const RunDirectory& run, const SubmitPlan& plan,
                                  Executor& executor) {
  Submission submission;
  submission.token = random_hex(16);
  submission.job.cluster = plan.clusters.value_or("");
  submission.server = plan.server;
  submission.output = plan.log_pattern.value_or("");
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
      return fail(interrupt.requested() ? Errc::kInterrupted : Errc::kUnavailable,
                  "{}\nWhether Slurm took the job is not known, and it cannot be asked now. `dlrun "
                  "status {}` settles it; "
                  "submitting again before that could run the job twice",
                  // `dlrun status` of the sweep settles its arrays.
                  job.error().message, run.id.substr(0, run.id.find('/')));
    }
    if (settled->state == Submission::State::kSubmitted)
      return SubmitOutcome{std::move(*settled), interrupt.requested()};
    if (interrupt.requested()) {
      remove_secrets(run.path);
      return fail(Errc::kInterrupted, "interrupted; Slurm did not take the job, nothing is queued");
    }
    // The controller answers and does not know the job.
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
  if (auto written = write_submission(run.path, submission); !written) {
    return fail(written.error().code,
                "the job was submitted as {}, but the run's journal could not be written: {}",
                job->id, written.error().message);
  }
  return SubmitOutcome{std::move(submission), interrupt.requested()};
}

}  // namespace dlrun
