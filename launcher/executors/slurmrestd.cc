// Drives Slurm through slurmrestd. Every call is one or two requests with a timeout; requests that
// change something are never retried here.

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "common/files.h"
#include "common/text.h"
#include "launcher/executors/classify.h"
#include "launcher/executors/executor.h"
#include "launcher/executors/http_client.h"
#include "launcher/executors/queue_cache.h"
#include "launcher/executors/rest_reply.h"
#include "launcher/executors/rest_token.h"
#include "launcher/executors/slurm_parse.h"
#include "launcher/executors/submitter.h"
#include "launcher/plan/rest_job.h"

namespace dlrun {
namespace {

using std::chrono::seconds;

/// slurmrestd itself waits while a controller restarts. After this time the answer counts as lost.
constexpr seconds kRestSubmitTimeout{120};
constexpr seconds kRestQueryTimeout{30};
constexpr std::size_t kLargestScript = 64U << 20U;
/// Up to this number, jobs are queried one by one; beyond it, one request for the whole queue is
/// cheaper, although its answer is larger.
constexpr std::size_t kFewJobs = 4;

[[nodiscard]] bool is_json(std::string_view body) {
  return trim(body).starts_with('{');
}

class Slurmrestd final : public Executor {
 public:
  Slurmrestd(const Env& env, RestServer server) : env_(env), server_(std::move(server)) {}

  Result<> check(const SubmitRequest& request) override {
    DLRUN_TRY_ASSIGN(const auto body, body_of(request, request.script_text));
    DLRUN_TRY_ASSIGN(const auto release, ready());
    return {};
  }

  Result<JobId> submit(const SubmitRequest& request) override {
    DLRUN_TRY_ASSIGN(const auto script, read_file(request.script, kLargestScript));
    DLRUN_TRY_ASSIGN(auto body, body_of(request, script));
    HttpRequest post{"POST", path("job/submit"), {}, std::move(body), kRestSubmitTimeout};
    DLRUN_TRY_ASSIGN(const auto answer, send(std::move(post)));
    if (answer.status == 200) {
      if (auto id = rest_job_id(answer.body)) return JobId{"", std::move(*id)};
    }
    return tl::unexpected(error_of(answer));
  }

  Result<std::string> test(const SubmitRequest& request) override {
    DLRUN_TRY_ASSIGN(const auto body, body_of(request, request.script_text));
    DLRUN_TRY_ASSIGN(const auto release, ready());
    return fmt::format(
        "slurmrestd of Slurm {} at {} answers and can express every option; whether and when the "
        "job would start only sbatch --test-only can tell",
        release, server_.url);
  }

  Result<std::optional<JobId>> do_find(std::string_view comment, const std::string&) override {
    DLRUN_TRY_ASSIGN(const auto answer, ask("jobs"));
    DLRUN_TRY_ASSIGN(const auto reports, rest_jobs(answer.body, ::getuid()));
    for (const auto& report : reports) {
      if (is_comment_of(report.comment, comment)) return JobId{"", array_id(report.job.id)};
    }
    return std::nullopt;
  }

  Result<QueryAnswer> do_query(std::span<const JobId> jobs,
                               std::chrono::milliseconds max_age) override {
    QueryAnswer answer;
    answer.accounting = "slurmrestd was not asked for it";
    std::set<std::string> ids;  // an array once for all its tasks
    for (const auto& job : jobs) ids.insert(array_id(job.id));
    if (max_age.count() == 0 && ids.size() <= kFewJobs) {
      for (const auto& id : ids) {
        DLRUN_TRY_ASSIGN(const auto reply, ask("job/" + id, AcceptUnknownJob::kYes));
        DLRUN_TRY(add_reports(answer, reply.body, jobs));
      }
      return answer;
    }
    DLRUN_TRY_ASSIGN(const auto body, shared_queue(jobs, max_age));
    DLRUN_TRY(add_reports(answer, body, jobs));
    return answer;
  }

  Result<> do_cancel(const JobId& job, std::string_view) override {
    HttpRequest request;
    request.method = "DELETE";
    request.path = path("job/" + job.id);
    request.timeout = kRestQueryTimeout;
    DLRUN_TRY_ASSIGN(const auto answer, send(std::move(request)));
    if (answer.status == 200) return {};
    if (rest_says_unknown_job(answer.body))
      return fail(Errc::kNotFound, "Slurm knows no job {} (any more)", job.id);
    return tl::unexpected(error_of(answer));
  }

 private:
  enum class AcceptUnknownJob { kNo, kYes };

  /// Returns the array's id for the id of a task.
  static std::string array_id(const std::string& id) { return id.substr(0, id.find('_')); }

  static std::string path(std::string_view what) {
    return fmt::format("/slurm/{}/{}", kRestVersion, what);
  }

  Result<std::string> body_of(const SubmitRequest& request, std::string_view script) const {
    Env env = request.env;
    // The job must not get the token: anybody with the token can act as the user on every cluster
    // that accepts it.
    env.unset("SLURM_JWT");
    add_submitter(env, request.directory.string(), env_);
    const std::string name = request.script.filename().string(),
                      directory = request.directory.string();
    return rest_job({script, name.empty() ? std::string_view("job.sh") : name, request.options,
                     directory, env});
  }

  /// Checks that the server supports kRestVersion, accepts the caller, and reaches a controller.
  /// Returns Slurm's release.
  Result<std::string> ready() {
    HttpRequest request;
    request.path = "/openapi/v3";
    request.timeout = kRestQueryTimeout;
    DLRUN_TRY_ASSIGN(const auto about, send(request));
    if (about.status != 200) return tl::unexpected(error_of(about));
    const auto versions = rest_versions(about.body);
    if (std::find(versions.begin(), versions.end(), kRestVersion) == versions.end())
      return tl::unexpected(wrong_version(versions));
    DLRUN_TRY_ASSIGN(const auto ping, ask("ping"));
    if (!rest_has_controller(ping.body))
      return fail(
          Errc::kUnavailable,
          "Slurm's controller is unreachable: slurmrestd at {} says that it does not answer",
          server_.url);
    return rest_release(ping.body);
  }

  [[nodiscard]] Error wrong_version(const std::vector<std::string>& versions) const {
    if (versions.empty())
      return {Errc::kRefused,
              fmt::format("{}: answers, but describes no API of Slurm's that takes jobs; is it a "
                          "slurmrestd?",
                          server_.url)};
    return {Errc::kRefused,
            fmt::format(
                "slurmrestd at {} takes jobs in version {} of its API; dlrun speaks {} "
                "(Slurm 22.05 to 23.11). Start it with -s openapi/{}, or give submit.via: sbatch",
                server_.url, join(versions, " and "), kRestVersion, kRestVersion)};
  }

  Result<HttpResponse> ask(std::string_view what, AcceptUnknownJob accept = AcceptUnknownJob::kNo) {
    HttpRequest request;
    request.path = path(what);
    request.timeout = kRestQueryTimeout;
    auto answer = send(std::move(request));
    if (!answer || answer->status == 200) return answer;
    if (accept == AcceptUnknownJob::kYes && rest_says_unknown_job(answer->body)) return answer;
    return tl::unexpected(error_of(*answer));
  }

  Result<HttpResponse> send(HttpRequest request) {
    DLRUN_TRY_ASSIGN(const auto address, parse_rest_url(server_.url));
    if (!address.socket.empty()) {
      struct stat info {};
      if (::stat(address.socket.c_str(), &info) != 0 || !S_ISSOCK(info.st_mode))
        return fail(Errc::kUnavailable, "there is no slurmrestd at {}: no such socket",
                    server_.url);
    }
    if (!server_.token_file.empty()) {
      DLRUN_TRY_ASSIGN(const auto token, read_token(server_.token_file));
      const struct passwd* user = ::getpwuid(::geteuid());
      request.headers.push_back(
          fmt::format("X-SLURM-USER-NAME: {}", user != nullptr ? user->pw_name : ""));
      request.headers.push_back("X-SLURM-USER-TOKEN: " + token);
    }
    if (!client_) {
      DLRUN_TRY_ASSIGN(auto client, HttpClient::to(address));
      client_ = std::make_unique<HttpClient>(std::move(client));
    }
    auto answer = client_->send(request);
    if (!answer) return within(fmt::format("slurmrestd at {}", server_.url), answer.error());
    return answer;
  }

  /// Converts an unexpected response to an error.
  [[nodiscard]] Error error_of(const HttpResponse& answer) const {
    const std::string errors = rest_errors(answer.body);
    const std::string status =
        fmt::format("HTTP {}{}{}", answer.status, errors.empty() ? "" : ": ", errors);
    if (answer.status == 401 || answer.status == 403) {
      if (server_.token_file.empty())
        return {
            Errc::kRefused,
            fmt::format(
                "slurmrestd at {} does not know the caller ({}); on a socket it serves only its "
                "own user, else it needs submit.token_file",
                server_.url, status)};
      return {Errc::kRefused, fmt::format("slurmrestd at {} does not accept the token of {} ({}); "
                                          "`scontrol token` makes a new one",
                                          server_.url, server_.token_file, status)};
    }
    if (answer.status == 404 && !is_json(answer.body))
      return {Errc::kRefused, fmt::format("slurmrestd at {} has no version {} of its API ({})",
                                          server_.url, kRestVersion, status)};
    // The response is a proxy's page, or empty: Slurm may have acted on the request or not.
    if (!is_json(answer.body) || (answer.status >= 502 && answer.status <= 504))
      return {Errc::kUnavailable,
              fmt::format("slurmrestd at {} did not answer ({})", server_.url, status)};
    if (says_unreachable(errors) || errors.find("config is unable to load") != std::string::npos) {
      // slurmrestd passes the token on to the controller. If the controller refuses the token,
      // slurmrestd reports the same error.
      const std::string also =
          server_.token_file.empty()
              ? std::string()
              : fmt::format(", or does not accept the token of {}", server_.token_file);
      return {Errc::kUnavailable,
              fmt::format("Slurm's controller is unreachable{}: slurmrestd at {} says {}", also,
                          server_.url, status)};
    }
    return {Errc::kRefused,
            fmt::format("Slurm refused (slurmrestd): {}", errors.empty() ? status : errors)};
  }

  /// Returns the user's jobs in the queue, so that one query serves every process that watches one
  /// of them.
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
      DLRUN_TRY_ASSIGN(const auto answer, ask("jobs"));
      return reduced_rest_jobs(answer.body, ::getuid());
    };
    auto cache = max_age.count() > 0 ? QueueCache::of_user(env_) : std::nullopt;
    if (!cache) return ask_all();
    return cache->get("rest " + server_.url, max_age, has_all, ask_all);
  }

  /// Adds the reports in a response about `jobs`.
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
  RestServer server_;
  std::unique_ptr<HttpClient> client_;
};

}  // namespace

std::unique_ptr<Executor> make_slurmrestd(const Env& env, RestServer server) {
  return std::make_unique<Slurmrestd>(env, std::move(server));
}

}  // namespace dlrun
