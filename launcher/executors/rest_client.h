#pragma once
// Talks to one slurmrestd: agrees with it on a version of the API, sends requests with the caller's
// token, and explains every answer that is none.

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

/// A client for one slurmrestd. Every call is one or two requests with a time limit, and one more
/// before the first of them. Not thread-safe.
class RestClient {
 public:
  explicit RestClient(RestServer server) : server_(std::move(server)) {}

  [[nodiscard]] const RestServer& server() const { return server_; }

  /// Asks the server which versions of the API it serves: {"v0.0.42", "v0.0.43"}.
  [[nodiscard]] Result<std::vector<std::string>> served_versions();

  /// Returns the newest version that the server and dlrun share, or the configured one. Asks the
  /// server once. Fails with kRefused if they share none; the message names both sides' versions.
  [[nodiscard]] Result<RestVersion> version();

  /// Checks that the server serves a version that dlrun speaks, accepts the caller, and reaches a
  /// controller. Returns Slurm's release.
  [[nodiscard]] Result<std::string> ready();

  enum class AcceptUnknownJob { kNo, kYes };
  /// Sends a GET below the version's path ("jobs", "job/42"). Fails unless the answer is a whole
  /// JSON object with status 200. kYes: also returns Slurm's answer that it knows no such job.
  [[nodiscard]] Result<HttpResponse> ask(std::string_view what,
                                         AcceptUnknownJob accept = AcceptUnknownJob::kNo);

  /// Sends another request below the version's path, whatever the answer's status is.
  [[nodiscard]] Result<HttpResponse> send(std::string method, std::string_view what,
                                          std::string body, std::chrono::milliseconds timeout);

  /// Explains an answer that is not what was asked for.
  [[nodiscard]] Error error_of(const HttpResponse& answer) const;

 private:
  [[nodiscard]] Result<HttpResponse> send_to(HttpRequest request);
  [[nodiscard]] Error no_version_in(const std::vector<std::string>& served) const;
  [[nodiscard]] Error not_accepted(std::string_view said) const;
  /// Returns what else an unreachable controller can mean: slurmrestd asks the controller in the
  /// caller's name, and reports a token that the controller refuses in the same words.
  [[nodiscard]] std::string or_not_accepted() const;

  RestServer server_;
  std::unique_ptr<HttpClient> client_;
  std::optional<RestVersion> version_;  ///< set once the server was asked
};

}  // namespace dlrun
