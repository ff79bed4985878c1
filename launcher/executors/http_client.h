#pragma once
// Sends HTTP requests to one server, one after the other, through libcurl. The first client loads
// libcurl; until then, dlrun runs without it. The portable dlrun calls the program curl instead
// (curl_library.h).

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/result.h"
#include "launcher/spec/rest_server.h"

namespace dlrun {

struct HttpRequest {
  std::string method = "GET";
  std::string path;                  ///< "/slurm/v0.0.38/ping"
  std::vector<std::string> headers;  ///< "NAME: value"
  std::string body;                  ///< JSON; empty: no body
  std::chrono::milliseconds timeout{30'000};
  std::size_t max_response_bytes = 32U << 20U;  ///< the largest size of the response's body
};

struct HttpResponse {
  long status = 0;
  std::string body;
};

/// Fails if a connected TCP socket does not lead to the right server. Called before anything is
/// sent.
using CheckPeer = std::function<Result<>(int socket)>;

/// A client for one server. Not thread-safe.
class HttpClient {
 public:
  /// Makes a client for the server. check_peer: checks a server on this machine that is reached
  /// over TCP; empty: every server is accepted. Fails with kNotFound if libcurl (in the portable
  /// dlrun: the program curl) is not installed, and with kInternal if it cannot be set up.
  [[nodiscard]] static Result<HttpClient> to(const RestAddress& address, CheckPeer check_peer = {});
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;
  ~HttpClient();

  /// Sends a request and returns the response, whatever its status. Does not follow redirections.
  /// If check_peer fails, sends nothing and fails with the same error. Fails with kUnavailable if
  /// no complete response of at most max_response_bytes arrived within the timeout; the server may
  /// still have acted on the request. If the connection is lost, retries a GET, which is
  /// idempotent, up to three times; does not retry any other method.
  [[nodiscard]] Result<HttpResponse> send(const HttpRequest& request);

 private:
  struct State;
  explicit HttpClient(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace dlrun
