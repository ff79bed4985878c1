#pragma once
// The address of a slurmrestd server, and the token that tells the server who uses dlrun.

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
  /// For http:// only: a Unix user, by name or uid, who may run the server. These users may always
  /// run it: root, slurm, slurmrestd, the SlurmUser of slurm.conf, and the user who runs dlrun.
  std::string accepted_owner = {};
  friend bool operator==(const RestServer&, const RestServer&) = default;
};

/// The url in the form that libcurl expects.
struct RestAddress {
  std::string base;    ///< "http://localhost", "https://rest.example.org:6820"; without a path
  std::string socket;  ///< absolute path of a unix socket, else empty
};

/// Parses the forms listed at RestServer::url. Fails with kInvalid for any other form. Also refuses
/// http:// to another machine, because the token would be sent unencrypted. The message shows no
/// user and no password of the url.
[[nodiscard]] Result<RestAddress> parse_rest_url(std::string_view url);

}  // namespace dlrun
