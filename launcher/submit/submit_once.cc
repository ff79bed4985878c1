// The journal makes a submission idempotent: the intent with a token is on the disk before sbatch
// starts, and the job's comment holds the token. If the answer is lost, dlrun looks the token up.

#include "launcher/submit/submit_once.h"

#include <utility>

#include "common/files.h"
#include "common/interrupt.h"
#include "common/json_read.h"
#include "common/text.h"
#include "common/untrusted_file.h"

namespace dlrun {
namespace {

constexpr const char* kSubmitFile = "submit.json";

bool is_outcome_open(const Error& error) {
  return error.code == Errc::kUnavailable || error.code == Errc::kTimeout ||
         error.code == Errc::kInterrupted;
}

}  // namespace

Result<> write_job_words(const std::filesystem::path& sweep, const SbatchSettings& words) {
  nlohmann::ordered_json json;
  if (words.server)
    json["server"] = {{"url", words.server->url}, {"token_file", words.server->token_file}};
  json["directory"] = words.directory.string();
  const auto add = [&](const char* key, const std::optional<std::string>& value) {
    if (value) json[key] = *value;
  };
  add("clusters", words.clusters);
  add("output", words.log_pattern);
  add("comment", words.comment);
  add("chdir", words.chdir);
  add("dependency", words.dependency);
  add("exclude", words.exclude);
  return write_file_atomic(sweep / kSubmitFile, json_read::dump(json) + "\n");
}

Result<SbatchSettings> read_job_words(const std::filesystem::path& sweep) {
  constexpr std::size_t kLimit = 1U << 20U;
  const auto path = sweep / kSubmitFile;
  const auto text = read_untrusted(path, kLimit, Links::kRefuse);
  if (!text) return tl::unexpected(text.error());
  const auto json = json_read::object_of(*text);
  if (!json) return fail(Errc::kInvalid, "{}: is damaged: expected a JSON object", path.string());
  SbatchSettings words;
  if (const auto server = json->find("server"); server != json->end() && server->is_object())
    words.server =
        RestServer{json_read::text(*server, "url"), json_read::text(*server, "token_file")};
  words.directory = json_read::text(*json, "directory");
  const auto get = [&](const char* key) {
    return json->contains(key) ? std::optional(json_read::text(*json, key)) : std::nullopt;
  };
  words.clusters = get("clusters");
  words.log_pattern = get("output");
  words.comment = get("comment");
  words.chdir = get("chdir");
  words.dependency = get("dependency");
  words.exclude = get("exclude");
  return words;
}

Result<Submission> submit_once(const Context& context, const RunDirectory& run,
                               const SbatchSettings& words, Executor& executor,
                               const Interrupt& interrupt, const std::string& token) {
  Submission submission;
  submission.token = token.empty() ? random_hex(16) : token;
  submission.job.cluster = words.clusters.value_or("");
  submission.server = words.server;
  submission.output = words.log_pattern.value_or("");
  submission.chdir = words.chdir.value_or("");
  DLRUN_TRY_ASSIGN(const auto request, submit_request(context, words, run.path, submission.token));
  if (!words.server) submission.argv = {"sbatch", "--parsable"};
  submission.argv.insert(submission.argv.end(), request.options.begin(), request.options.end());
  submission.argv.push_back(request.script.string());

  const auto lock = SubmissionLock::hold(run.path);
  if (!words.is_array) DLRUN_TRY(write_secrets(run.path, words.secrets));
  DLRUN_TRY(write_submission(run.path, submission));
  auto job = executor.submit(request);
  if (!job && is_outcome_open(job.error())) {
    auto settled = settle(run.path, submission, executor);
    if (!settled) {
      return fail(interrupt.requested() ? Errc::kInterrupted : Errc::kUnavailable,
                  "{}\nWhether Slurm took the job is not known, and it cannot be asked now. `dlrun "
                  "status {}` settles it; submitting again before that could run the job twice",
                  // `dlrun status` of the sweep settles its arrays.
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
  return submission;
}

}  // namespace dlrun
