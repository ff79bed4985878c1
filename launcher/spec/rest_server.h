#pragma once
// A slurmrestd: where it listens and how it learns who asks.

#include <string>
#include <string_view>

#include "common/result.h"

namespace dlrun {

struct RestServer {
  std::string url;         ///< unix:/PATH, http://127.0.0.1:PORT, https://HOST[:PORT]
  std::string token_file;  ///< absolute; holds a JWT and is readable by its owner alone. Empty: the
                           ///< socket tells who asks
  friend bool operator==(const RestServer&, const RestServer&) = default;
};

/// The url in libcurl's terms.
struct RestAddress {
  std::string base;    ///< "http://localhost", "https://rest.example.org:6820"; without a path
  std::string socket;  ///< absolute path of a unix socket, else empty
};

/// Fails with kInvalid for any other form, and for http:// to another machine: the token would
/// travel in the clear.
[[nodiscard]] Result<RestAddress> parse_rest_url(std::string_view url);

}  // namespace dlrun
