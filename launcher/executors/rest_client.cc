#include "launcher/executors/rest_client.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "common/text.h"
#include "launcher/executors/classify.h"
#include "launcher/executors/rest_reply.h"
#include "launcher/executors/rest_token.h"

namespace dlrun {
namespace {

/// The queue of a cluster with 50,000 jobs fits. Every other answer is far smaller.
constexpr std::size_t kLargestQueue = 256U << 20U;

}  // namespace

Result<std::vector<std::string>> RestClient::served_versions() {
  HttpRequest request;
  request.path = "/openapi/v3";
  request.timeout = kRestQueryTimeout;
  DLRUN_TRY_ASSIGN(const auto answer, send_to(std::move(request)));
  if (answer.status != 200 || !rest_is_whole(answer.body)) return tl::unexpected(error_of(answer));
  return rest_versions(answer.body);
}

Result<RestVersion> RestClient::version() {
  if (version_) return *version_;
  DLRUN_TRY_ASSIGN(const auto served, served_versions());
  const auto newest = newest_rest_version(served);
  if (!server_.version.empty()) {
    if (std::find(served.begin(), served.end(), server_.version) == served.end())
      return tl::unexpected(no_version_in(served));
    version_ = parse_rest_version(server_.version);
  } else {
    version_ = newest;
  }
  if (!version_) return tl::unexpected(no_version_in(served));
  return *version_;
}

Result<std::string> RestClient::ready() {
  DLRUN_TRY_ASSIGN(const auto ping, ask("ping"));
  if (!rest_has_controller(ping.body))
    return fail(
        Errc::kUnavailable,
        "Slurm's controller is unreachable{}: slurmrestd at {} says that it does not answer",
        or_not_accepted(), server_.url);
  return rest_release(ping.body);
}

Error RestClient::no_version_in(const std::vector<std::string>& served) const {
  if (served.empty())
    return {Errc::kRefused,
            fmt::format("{} answers, but describes no Slurm API that accepts jobs; check that it is a "
                        "slurmrestd",
                        server_.url)};
  if (!server_.version.empty())
    return {Errc::kRefused,
            fmt::format("slurmrestd at {} takes jobs in version {} of its API, not in {}, which "
                        "your configuration asks for; leave out `version` of this server there",
                        server_.url, join(served, " and "), server_.version)};
  return {
      Errc::kRefused,
      fmt::format("slurmrestd at {} takes jobs in version {} of its API; dlrun speaks {}. Start "
                  "it with -s openapi/slurmctld, or give submit.via: sbatch",
                  server_.url, join(served, " and "), spoken_rest_versions())};
}

Result<HttpResponse> RestClient::ask(std::string_view what, AcceptUnknownJob accept) {
  auto answer = send("GET", what, {}, kRestQueryTimeout);
  if (!answer) return answer;
  if (answer->status == 200 && rest_is_whole(answer->body)) return answer;
  if (accept == AcceptUnknownJob::kYes && rest_says_unknown_job(answer->body)) return answer;
  return tl::unexpected(error_of(*answer));
}

Result<HttpResponse> RestClient::send(std::string method, std::string_view what, std::string body,
                                      std::chrono::milliseconds timeout) {
  DLRUN_TRY_ASSIGN(const auto version, this->version());
  HttpRequest request;
  request.method = std::move(method);
  request.path = fmt::format("/slurm/{}/{}", rest_version_text(version), what);
  request.body = std::move(body);
  request.timeout = timeout;
  if (what == "jobs") request.largest_answer = kLargestQueue;
  auto answer = send_to(std::move(request));
  // A server that was upgraded meanwhile is asked for its versions again.
  if (answer && answer->status == 404 && !rest_is_whole(answer->body)) version_.reset();
  return answer;
}

Result<HttpResponse> RestClient::send_to(HttpRequest request) {
  DLRUN_TRY_ASSIGN(const auto address, parse_rest_url(server_.url));
  if (!address.socket.empty()) {
    struct stat info {};
    if (::stat(address.socket.c_str(), &info) != 0 || !S_ISSOCK(info.st_mode))
      return fail(Errc::kUnavailable, "there is no slurmrestd at {}: no such socket", server_.url);
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

Error RestClient::not_accepted(std::string_view said) const {
  if (server_.token_file.empty())
    return {Errc::kRefused,
            fmt::format("slurmrestd at {} does not know who asks ({}); on a socket it serves its "
                        "own user alone, else it wants submit.token_file",
                        server_.url, said)};
  return {Errc::kRefused,
          fmt::format("slurmrestd at {} does not accept the token of {} ({}); `scontrol token` "
                      "makes a new one",
                      server_.url, server_.token_file, said)};
}

std::string RestClient::or_not_accepted() const {
  return server_.token_file.empty()
             ? std::string()
             : fmt::format(", or does not accept the token of {}", server_.token_file);
}

Error RestClient::error_of(const HttpResponse& answer) const {
  const bool is_whole = rest_is_whole(answer.body);
  const std::string words = rest_errors(answer.body);
  const std::string said =
      fmt::format("HTTP {}{}{}", answer.status, words.empty() ? "" : ": ", words);
  // 511 is the answer to a bad token from v0.0.40 on.
  if (answer.status == 401 || answer.status == 403 || answer.status == 511)
    return not_accepted(said);
  if (answer.status == 404 && !is_whole)
    return {Errc::kRefused,
            fmt::format("slurmrestd at {} has no version {} of its API ({})", server_.url,
                        version_ ? rest_version_text(*version_) : "that dlrun speaks", said)};
  if (answer.status == 200 && !is_whole)
    return {Errc::kUnavailable,
            fmt::format("slurmrestd at {} answered with {} bytes that are no whole JSON object: "
                        "'{}'; ask again, and look into its log if it stays so",
                        server_.url, answer.body.size(), printable(answer.body.substr(0, 80)))};
  // The response is a proxy's page, or empty: Slurm may have acted on the request or not.
  if (!is_whole || (answer.status >= 502 && answer.status <= 504))
    return {Errc::kUnavailable,
            fmt::format("slurmrestd at {} did not answer ({})", server_.url, said)};
  if (says_unreachable(words) || words.find("config is unable to load") != std::string::npos) {
    return {Errc::kUnavailable,
            fmt::format("Slurm's controller is unreachable{}: slurmrestd at {} says {}",
                        or_not_accepted(), server_.url, said)};
  }
  return {Errc::kRefused,
          fmt::format("Slurm refused (slurmrestd): {}", words.empty() ? said : words)};
}

}  // namespace dlrun
