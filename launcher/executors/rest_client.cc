#include "launcher/executors/rest_client.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/files.h"
#include "common/tcp_owner.h"
#include "common/text.h"
#include "common/unix_accounts.h"
#include "launcher/executors/rest_reply.h"
#include "launcher/executors/rest_token.h"
#include "launcher/executors/slurm_conf.h"

namespace dlrun {
namespace {

/// The size limit of a response with all jobs of a cluster. 50,000 jobs fit. For all other
/// responses, the default limit of HttpRequest is enough.
constexpr std::size_t kLargestQueueBytes = 256U << 20U;

/// Returns true if slurmrestd does not know the path of the request. slurmrestd then sends plain
/// text.
[[nodiscard]] bool is_path_unknown(const HttpResponse& response) {
  return response.status == 404 && !rest_is_complete(response.body);
}

}  // namespace

Result<> check_server_owner(const RestServer& server, std::optional<uid_t> owner) {
  if (!owner || *owner == 0 || *owner == ::geteuid()) return {};
  const auto account = unix_account_of(*owner);
  const std::string uid = std::to_string(*owner);
  const std::string name = account ? account->name : uid;
  if (name == "slurm" || name == "slurmrestd" || name == server.accepted_owner ||
      uid == server.accepted_owner)
    return {};
  // The uid may follow the name: SlurmUser=slurm(64030).
  const std::string slurm_user = slurm_conf_value(Env::of_process(), "SlurmUser");
  if (name == slurm_user.substr(0, slurm_user.find('('))) return {};
  return fail(
      Errc::kRefused,
      "user {} (uid {}) listens there, and not root, slurm or slurmrestd; nothing was sent. "
      "Every user of this machine can take a free port. If {} runs your slurmrestd, write "
      "`user: {}` into the server's entry under `slurmrestd` in your site file",
      printable(name), uid, printable(name), printable(name));
}

Result<std::vector<std::string>> RestClient::served_versions() {
  HttpRequest request;
  request.path = "/openapi/v3";
  request.timeout = kRestQueryTimeout;
  DLRUN_TRY_ASSIGN(const auto response, send_to_server(std::move(request)));
  if (response.status != 200 || !rest_is_complete(response.body))
    return tl::unexpected(error_of(response));
  return rest_versions(response.body);
}

Result<RestVersion> RestClient::version() {
  if (version_) return *version_;
  DLRUN_TRY_ASSIGN(const auto served, served_versions());
  auto chosen = newest_rest_version(served);
  if (!server_.version.empty()) {
    const bool is_served = std::find(served.begin(), served.end(), server_.version) != served.end();
    chosen = is_served ? parse_rest_version(server_.version) : std::nullopt;
  }
  if (!chosen) return tl::unexpected(no_version_error(served));
  version_ = chosen;
  return *version_;
}

Result<std::string> RestClient::slurm_release_if_ready() {
  DLRUN_TRY_ASSIGN(const auto ping, get("ping"));
  if (!rest_has_controller(ping.body))
    return fail(Errc::kUnavailable,
                "Slurm's controller is unreachable{}: slurmrestd at {} gets no answer from it",
                or_token_not_accepted(), server_.url);
  return rest_release(ping.body);
}

Error RestClient::no_version_error(const std::vector<std::string>& served) const {
  if (served.empty())
    return {
        Errc::kRefused,
        fmt::format("{} answers, but describes no Slurm API that accepts jobs; check that it is a "
                    "slurmrestd",
                    server_.url)};
  const std::string serves = fmt::format("slurmrestd at {} takes jobs in version {} of its API",
                                         server_.url, join(served, " and "));
  if (!server_.version.empty())
    return {Errc::kRefused,
            fmt::format("{}, and dlrun speaks {}; your configuration requests {}: change or "
                        "remove the server's `version` in your site file",
                        serves, supported_rest_versions_text(), printable(server_.version))};
  return {Errc::kRefused,
          fmt::format("{}; dlrun speaks {}. Start slurmrestd with -s openapi/slurmctld, or set "
                      "submit.via: sbatch",
                      serves, supported_rest_versions_text())};
}

Result<HttpResponse> RestClient::get(std::string_view path, AcceptUnknownJob accept) {
  auto response = send("GET", path, {}, kRestQueryTimeout);
  if (response && is_path_unknown(*response)) {
    // The server may have been upgraded since dlrun asked for its versions.
    version_.reset();
    response = send("GET", path, {}, kRestQueryTimeout);
  }
  if (!response) return response;
  if (response->status == 200 && rest_is_complete(response->body)) return response;
  if (accept == AcceptUnknownJob::kYes && rest_says_unknown_job(response->body)) return response;
  return tl::unexpected(error_of(*response));
}

Result<HttpResponse> RestClient::send(std::string method, std::string_view path, std::string body,
                                      std::chrono::milliseconds timeout) {
  DLRUN_TRY_ASSIGN(const auto spoken, version());
  HttpRequest request;
  request.method = std::move(method);
  request.path = fmt::format("/slurm/{}/{}", rest_version_text(spoken), path);
  request.body = std::move(body);
  request.timeout = timeout;
  if (path == "jobs") request.max_response_bytes = kLargestQueueBytes;
  return send_to_server(std::move(request));
}

Result<HttpResponse> RestClient::send_to_server(HttpRequest request) {
  DLRUN_TRY_ASSIGN(const auto address, parse_rest_url(server_.url));
  if (!address.socket.empty()) {
    struct stat info {};
    if (::stat(address.socket.c_str(), &info) != 0)
      return fail(Errc::kUnavailable, "dlrun finds no slurmrestd at {}: {}", server_.url,
                  errno == ENOENT ? "no such socket" : errno_text(errno));
    if (!S_ISSOCK(info.st_mode))
      return fail(Errc::kUnavailable, "there is no slurmrestd at {}: the file is not a socket",
                  server_.url);
  }
  if (!server_.token_file.empty()) {
    DLRUN_TRY_ASSIGN(const auto token, read_token(server_.token_file));
    const auto user = unix_account_of(::geteuid());
    request.headers.push_back(fmt::format("X-SLURM-USER-NAME: {}", user ? user->name : ""));
    request.headers.push_back("X-SLURM-USER-TOKEN: " + token);
  }
  if (!client_) {
    CheckPeer check_peer;
    if (address.socket.empty() && address.base.starts_with("http://")) {
      check_peer = [server = server_](int socket) {
        return check_server_owner(server, owner_of_tcp_peer(socket));
      };
    }
    DLRUN_TRY_ASSIGN(auto client, HttpClient::to(address, std::move(check_peer)));
    client_ = std::make_unique<HttpClient>(std::move(client));
  }
  auto response = client_->send(request);
  if (!response) return within(fmt::format("slurmrestd at {}", server_.url), response.error());
  return response;
}

Error RestClient::caller_not_accepted_error(std::string_view status) const {
  if (server_.token_file.empty())
    return {Errc::kRefused,
            fmt::format("slurmrestd at {} does not accept this user ({}). With a unix socket, "
                        "slurmrestd serves only the user who runs it; any other slurmrestd needs "
                        "submit.token_file",
                        server_.url, status)};
  return {Errc::kRefused,
          fmt::format("slurmrestd at {} does not accept the token of {} ({}); `scontrol token` "
                      "makes a new one",
                      server_.url, server_.token_file, status)};
}

std::string RestClient::or_token_not_accepted() const {
  return server_.token_file.empty()
             ? std::string()
             : fmt::format(", or does not accept the token of {}", server_.token_file);
}

Error RestClient::error_of(const HttpResponse& response) const {
  const bool is_complete = rest_is_complete(response.body);
  const std::string errors = rest_errors(response.body);
  const std::string status =
      fmt::format("HTTP {}{}{}", response.status, errors.empty() ? "" : ": ", errors);
  // From v0.0.40 on, slurmrestd answers a bad token with 511.
  if (response.status == 401 || response.status == 403 || response.status == 511)
    return caller_not_accepted_error(status);
  if (is_path_unknown(response))
    return {Errc::kRefused, version_
                                ? fmt::format("slurmrestd at {} has no version {} of its API ({})",
                                              server_.url, rest_version_text(*version_), status)
                                : fmt::format("slurmrestd at {} does not describe its API ({})",
                                              server_.url, status)};
  if (response.status == 200 && !is_complete)
    return {Errc::kUnavailable,
            fmt::format("slurmrestd at {} sent {} bytes that are not a complete JSON object: '{}'; "
                        "try again, and read slurmrestd's log if this happens again",
                        server_.url, response.body.size(), printable(response.body.substr(0, 80)))};
  // The response is a proxy's page, or empty: Slurm may have acted on the request or not.
  if (!is_complete || (response.status >= 502 && response.status <= 504))
    return {Errc::kUnavailable,
            fmt::format("slurmrestd at {} did not answer ({})", server_.url, status)};
  if (rest_says_unreachable(response.body))
    return {Errc::kUnavailable,
            fmt::format("Slurm's controller is unreachable{}: slurmrestd at {} says {}",
                        or_token_not_accepted(), server_.url, status)};
  return {
      .code = Errc::kRefused,
      .message = fmt::format("Slurm refused (slurmrestd): {}", errors.empty() ? status : errors),
      .refusal = rest_refusal_reason(response.body)};
}

}  // namespace dlrun
