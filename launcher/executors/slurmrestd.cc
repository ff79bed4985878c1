// Submits, queries and cancels jobs through slurmrestd. Every request has a timeout. Nothing in
// this file retries a request that changes something.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "common/files.h"
#include "common/text.h"
#include "launcher/executors/executor.h"
#include "launcher/executors/queue_cache.h"
#include "launcher/executors/rest_client.h"
#include "launcher/executors/rest_reply.h"
#include "launcher/executors/slurm_parse.h"
#include "launcher/executors/submitter_properties.h"
#include "launcher/plan/rest_job.h"

namespace dlrun {
namespace {

using std::chrono::seconds;

/// slurmrestd itself waits while a controller restarts. After this time the answer counts as lost.
constexpr seconds kRestSubmitTimeout{120};
constexpr std::size_t kLargestScriptBytes = 64U << 20U;
/// Up to this number, jobs are queried one by one; beyond it, one request for the whole queue is
/// cheaper, although its answer is larger.
constexpr std::size_t kFewJobs = 4;

class Slurmrestd final : public Executor {
 public:
  Slurmrestd(const Env& env, RestServer server) : env_(env), client_(std::move(server)) {}

  Result<> check(const SubmitRequest& request) override {
    DLRUN_TRY_ASSIGN(const auto version, client_.version());
    DLRUN_TRY_ASSIGN(const auto body, body_of(request, request.script_text, version));
    DLRUN_TRY_ASSIGN(const auto release, client_.slurm_release_if_ready());
    return {};
  }

  Result<JobId> submit(const SubmitRequest& request) override {
    DLRUN_TRY_ASSIGN(const auto script, read_file(request.script, kLargestScriptBytes));
    DLRUN_TRY_ASSIGN(const auto version, client_.version());
    DLRUN_TRY_ASSIGN(auto body, body_of(request, script, version));
    DLRUN_TRY_ASSIGN(const auto answer,
                     client_.send("POST", "job/submit", std::move(body), kRestSubmitTimeout));
    // A response with an id can have another status than 200: the job then waits, and the error is
    // the reason.
    if (auto id = rest_job_id(answer.body)) {
      const std::string warnings = rest_field_warnings(answer.body);
      if (!warnings.empty()) return tl::unexpected(cancel_incomplete_job(*id, warnings));
      return JobId{"", std::move(*id)};
    }
    if (answer.status == 200 && rest_is_complete(answer.body) && rest_errors(answer.body).empty())
      return fail(Errc::kUnavailable, "slurmrestd at {} answered the submission without a job id",
                  client_.server().url);
    Error error = client_.error_of(answer);
    error.is_unconfirmed =
        error.code == Errc::kRefused && !rest_has_error_of_controller(answer.body);
    return tl::unexpected(std::move(error));
  }

  Result<std::string> test(const SubmitRequest& request) override {
    DLRUN_TRY_ASSIGN(const auto version, client_.version());
    DLRUN_TRY_ASSIGN(const auto body, body_of(request, request.script_text, version));
    DLRUN_TRY_ASSIGN(const auto release, client_.slurm_release_if_ready());
    return fmt::format(
        "slurmrestd of Slurm {} at {} answers in {} and can express every option; only sbatch "
        "--test-only can tell whether and when the job would start",
        release, client_.server().url, rest_version_text(version));
  }

  Result<std::optional<JobId>> do_find(std::string_view comment, const std::string&) override {
    DLRUN_TRY_ASSIGN(const auto answer, client_.get("jobs"));
    DLRUN_TRY_ASSIGN(const auto reports, rest_jobs(answer.body, ::getuid()));
    for (const auto& report : reports) {
      if (starts_with_dlrun_comment(report.comment, comment))
        return JobId{"", array_id(report.job.id)};
    }
    return std::nullopt;
  }

  Result<QueryAnswer> do_query(std::span<const JobId> jobs,
                               std::chrono::milliseconds max_age) override {
    QueryAnswer answer;
    answer.why_no_accounting = "dlrun asks slurmrestd only for jobs in the queue";
    std::set<std::string> ids;  // the array's id in place of the ids of its tasks
    for (const auto& job : jobs) ids.insert(array_id(job.id));
    if (max_age.count() == 0 && ids.size() <= kFewJobs) {
      for (const auto& id : ids) {
        DLRUN_TRY_ASSIGN(const auto reply,
                         client_.get("job/" + id, RestClient::AcceptUnknownJob::kYes));
        if (rest_says_unknown_job(reply.body)) continue;
        DLRUN_TRY(add_reports(answer, reply.body, jobs));
      }
      return answer;
    }
    DLRUN_TRY_ASSIGN(const auto body, shared_queue(jobs, max_age));
    DLRUN_TRY(add_reports(answer, body, jobs));
    return answer;
  }

  Result<> do_cancel(const JobId& job, std::string_view) override {
    // slurmrestd 23.11, which has v0.0.40, ignores the task's number and cancels the whole array.
    DLRUN_TRY_ASSIGN(const auto version, client_.version());
    if (version == RestVersion::k40 && array_id(job.id) != job.id)
      return fail(Errc::kRefused,
                  "in v0.0.40 of its API, slurmrestd would cancel the whole array instead of {0}. "
                  "Run scancel {0}, or set the server's `version` to another one in a site file",
                  job.id);
    DLRUN_TRY_ASSIGN(const auto answer,
                     client_.send("DELETE", "job/" + job.id, {}, kRestQueryTimeout));
    if (rest_says_unknown_job(answer.body))
      return fail(Errc::kNotFound, "Slurm knows no job {} (any more)", job.id);
    if (const std::string errors = rest_cancel_failure(answer.body); !errors.empty())
      return fail(Errc::kRefused, "Slurm refused (slurmrestd): {}", errors);
    if (answer.status == 200 && rest_is_complete(answer.body)) return {};
    return tl::unexpected(client_.error_of(answer));
  }

 private:
  /// Returns the array's id for the id of a task.
  static std::string array_id(const std::string& id) { return id.substr(0, id.find('_')); }

  Result<std::string> body_of(const SubmitRequest& request, std::string_view script,
                              RestVersion version) const {
    Env env = request.env;
    // The job must not get the token: anybody with the token can act as the user on every cluster
    // that accepts it.
    env.unset("SLURM_JWT");
    add_properties_of_submitter(env, request.directory.string(), env_);
    const std::string name = request.script.filename().string(),
                      directory = request.directory.string();
    return rest_job_body({script, name.empty() ? std::string_view("job.sh") : name, request.options,
                          directory, env, version, request.keys_of_options});
  }

  /// Cancels a job that slurmrestd has accepted without some of the requested fields. Returns the
  /// error of the submission.
  Error cancel_incomplete_job(const std::string& id, std::string_view warnings) {
    const auto cancelled = do_cancel({"", id}, {});
    const bool is_gone = cancelled || cancelled.error().code == Errc::kNotFound;
    return {Errc::kRefused,
            fmt::format("slurmrestd at {} accepted the job without some of its properties: {}. {}. "
                        "Set submit.via: sbatch, and report this error to dlrun's developers",
                        client_.server().url, warnings,
                        is_gone ? fmt::format("Job {} was cancelled", id)
                                : fmt::format("Job {} could not be cancelled ({}): run scancel {}",
                                              id, cancelled.error().message, id))};
  }

  /// Returns all jobs of the user in the queue. If max_age is not 0, one query serves all processes
  /// that watch a job of this user.
  Result<std::string> shared_queue(std::span<const JobId> jobs, std::chrono::milliseconds max_age) {
    const auto has_all = [&](const std::string& text) {
      const auto reports = rest_jobs(text, ::getuid());
      if (!reports) return false;
      std::set<std::string> known;
      for (const auto& report : *reports) known.insert(report.job.id);
      return std::all_of(jobs.begin(), jobs.end(),
                         [&](const JobId& job) { return known.contains(job.id); });
    };
    const auto ask_all = [&]() -> Result<std::string> {
      DLRUN_TRY_ASSIGN(const auto answer, client_.get("jobs"));
      return reduced_rest_jobs(answer.body, ::getuid());
    };
    auto cache = max_age.count() > 0 ? QueueCache::of_user(env_) : std::nullopt;
    if (!cache) return ask_all();
    return cache->get("rest " + client_.server().url, max_age, has_all, ask_all);
  }

  /// Adds those reports of a response that are about `jobs`.
  static Result<> add_reports(QueryAnswer& answer, std::string_view body,
                              std::span<const JobId> jobs) {
    DLRUN_TRY_ASSIGN(auto reports, rest_jobs(body, ::getuid()));
    std::map<std::string_view, const JobId*> wanted;
    for (const JobId& job : jobs) wanted.emplace(job.id, &job);
    for (auto& report : reports) {
      const auto found = wanted.find(report.job.id);
      if (found == wanted.end()) continue;
      report.job = *found->second;
      answer.reports.push_back(std::move(report));
    }
    return {};
  }

  Env env_;
  RestClient client_;
};

}  // namespace

std::unique_ptr<Executor> make_slurmrestd(const Env& env, RestServer server) {
  return std::make_unique<Slurmrestd>(env, std::move(server));
}

}  // namespace dlrun
