#pragma once
// The address of a slurmrestd, and the token that identifies the user of dlrun to it.

#include <string>
#include <string_view>

#include "common/result.h"

namespace dlrun {

struct RestServer {
  std::string url;  ///< unix:/PATH, http://127.0.0.1:PORT, https://HOST[:PORT]
  /// Absolute path of a file with a JWT, readable by its owner alone. Empty for a unix socket,
  /// because the socket itself tells slurmrestd which user has connected.
  std::string token_file;
  /// The version of the API to use, such as "v0.0.42". Empty: the newest that dlrun and the server
  /// both support.
  std::string version = {};
  /// For http:// only: the name or uid of an account that may run the server. The user who runs
  /// dlrun, root, slurm, slurmrestd and the SlurmUser of slurm.conf may always run it.
  std::string accepted_owner = {};
  friend bool operator==(const RestServer&, const RestServer&) = default;
};

/// The url in the form that libcurl expects.
struct RestAddress {
  std::string base;    ///< "http://localhost", "https://rest.example.org:6820"; without a path
  std::string socket;  ///< absolute path of a unix socket, else empty
};

/// Parses the forms listed at RestServer::url. Fails with kInvalid for any other form, and for
/// http:// to another machine, which would send the token unencrypted. The message shows no user
/// and no password.
[[nodiscard]] Result<RestAddress> parse_rest_url(std::string_view url);

}  // namespace dlrun
