#pragma once
// Sends one HTTP request through the program `curl`. The agent is a static binary without TLS, and
// cannot rely on a library of the node. Therefore a child process sends the request. curl gets the
// address, the headers and the body on its standard input, because other users can read the
// arguments of a process.

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "common/result.h"

namespace dlrun {

/// Returns the reason why dlrun refuses to send to this address; empty if dlrun accepts the
/// address. The reason never contains the address, which may be a secret. Accepts http:// and
/// https:// without a user name. Refuses link-local addresses and Google's metadata servers, where
/// clouds offer the credentials of a machine. Also refuses an address that has no host, is longer
/// than 2048 bytes, or has characters that no valid address has.
[[nodiscard]] std::string address_problem(std::string_view url);

struct CurlRequest {
  std::string url;
  std::string method = "POST";
  std::string body{};                  ///< JSON; empty: no body
  std::vector<std::string> headers{};  ///< "Name: value"; may be secret
};

struct CurlReply {
  int status = 0;  ///< the HTTP status; 0: no reply
  std::string body{};
  /// True if the server may have received the request although there is no reply.
  bool request_may_have_arrived = false;
  /// The reason why there is no reply, or why `body` is incomplete (the reply is too large). Does
  /// not contain the address. Empty: no problem.
  std::string problem{};
};

/// The largest size of a body, in bytes after quoting for curl's standard input. The body is in one
/// line there, and curl 7.88 cuts lines at 100 KiB.
inline constexpr std::size_t kLargestCurlBody = 96U << 10U;

/// Sends the request and returns the reply. Follows no redirect, reads no configuration file of
/// curl, and speaks only HTTP and HTTPS. Honours the proxy variables of env. Ends at most two
/// seconds after `limit`. Fails with
/// - kNotFound if there is no curl in the PATH of env;
/// - kInvalid if address_problem() gives a reason, the request's body is too large, or a header has
///   a control character;
/// - kIo if curl cannot be started.
[[nodiscard]] Result<CurlReply> send_by_curl(const Env& env, const CurlRequest& request,
                                             std::chrono::seconds limit);

/// Returns the text of curl's standard input for a request. Public for tests.
[[nodiscard]] std::string curl_config(const CurlRequest& request, std::chrono::seconds limit);

}  // namespace dlrun
