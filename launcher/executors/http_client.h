#pragma once
// One HTTP request after another to one server, through libcurl, which is loaded when the first
// client is made: dlrun starts without it, and runs where it is missing as long as nobody asks for
// slurmrestd.

#include <chrono>
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
  std::string body;                  ///< JSON; empty: none
  std::chrono::milliseconds timeout{30'000};
};

struct HttpResponse {
  long status = 0;
  std::string body;
};

class HttpClient {
 public:
  /// kNotFound where libcurl is not installed.
  [[nodiscard]] static Result<HttpClient> to(const RestAddress& address);
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;
  ~HttpClient();

  /// Any status is an answer. Follows no redirection. Fails with kUnavailable when no whole answer
  /// came, within the timeout or within 256 MiB: whether the server acted on the request is then
  /// not known. A GET, which may arrive twice, is sent up to three times more where the connection
  /// is lost; nothing else is.
  [[nodiscard]] Result<HttpResponse> send(const HttpRequest& request);

 private:
  struct State;
  explicit HttpClient(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace dlrun
