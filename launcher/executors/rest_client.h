#pragma once
// Talks to one slurmrestd: chooses the version of the API, sends requests with the user's token,
// and converts unexpected responses to errors.

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "launcher/executors/http_client.h"
#include "launcher/spec/rest_server.h"
#include "launcher/spec/rest_version.h"

namespace dlrun {

/// The time limit of requests that change nothing, or that end a job.
inline constexpr std::chrono::seconds kRestQueryTimeout{30};

/// Checks which user listens at the other end of a connection to this machine. Accepts root, slurm,
/// slurmrestd, slurm.conf's SlurmUser, the caller's user and server.accepted_owner. owner: the user
/// who owns the server's socket; nullopt: the kernel does not report the owner, and the server is
/// accepted. For any other owner, fails with kRefused and a message with the owner's name.
[[nodiscard]] Result<> check_server_owner(const RestServer& server, std::optional<uid_t> owner);

/// A client for one slurmrestd. Every request has a time limit. The first call also asks the server
/// for its versions. Not thread-safe.
class RestClient {
 public:
  explicit RestClient(RestServer server) : server_(std::move(server)) {}

  [[nodiscard]] const RestServer& server() const { return server_; }

  /// Asks the server for the versions of the API that it serves, such as {"v0.0.42", "v0.0.43"}.
  [[nodiscard]] Result<std::vector<std::string>> served_versions();

  /// Returns the configured version, or else the newest that the server and dlrun support. Asks the
  /// server once, and again only after the server did not know the path of a get(). Fails with
  /// kRefused if the server does not serve the configured version, or serves no version that dlrun
  /// supports; the message lists the versions of the server and of dlrun.
  [[nodiscard]] Result<RestVersion> version();

  /// Checks that slurmrestd reaches a controller, and that the controller accepts the user.
  /// Returns Slurm's release. Fails with kUnavailable if no controller answers.
  [[nodiscard]] Result<std::string> slurm_release_if_ready();

  enum class AcceptUnknownJob { kNo, kYes };
  /// Sends a GET for a path below the version's path ("jobs", "job/42"). Fails if the response does
  /// not have status 200 or is not a complete JSON object. If the server does not know the path, it
  /// may have been upgraded: get() then asks for its versions and repeats the request once. accept:
  /// with kYes, also returns a response that says that Slurm does not know the job.
  [[nodiscard]] Result<HttpResponse> get(std::string_view path,
                                         AcceptUnknownJob accept = AcceptUnknownJob::kNo);

  /// Sends a request to a path below the version's path. Returns the response, whatever its status.
  [[nodiscard]] Result<HttpResponse> send(std::string method, std::string_view path,
                                          std::string body, std::chrono::milliseconds timeout);

  /// Converts an unexpected response to an error.
  [[nodiscard]] Error error_of(const HttpResponse& response) const;

 private:
  [[nodiscard]] Result<HttpResponse> send_to_server(HttpRequest request);
  [[nodiscard]] Error no_version_error(const std::vector<std::string>& served) const;
  [[nodiscard]] Error caller_not_accepted_error(std::string_view status) const;
  /// Returns the second possible cause of an unreachable controller, as a part of the message.
  /// slurmrestd passes the token on to the controller. If the controller refuses the token,
  /// slurmrestd reports the same error as for an unreachable controller.
  [[nodiscard]] std::string or_token_not_accepted() const;

  RestServer server_;
  std::unique_ptr<HttpClient> client_;
  std::optional<RestVersion> version_;  ///< set by version(); nullopt: not yet known
};

}  // namespace dlrun
