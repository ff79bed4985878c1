#pragma once
// The slurmrestd servers that dlrun may contact, and the token for each. The user's or the site's
// configuration lists them; a run's files and a spec may only refer to a listed server. Otherwise
// the author of these files could make dlrun send the user's token to another server.

#include <filesystem>
#include <vector>

#include "common/env.h"
#include "common/result.h"
#include "launcher/spec/rest_server.h"

namespace dlrun {

/// The configured slurmrestd servers.
class KnownServers {
 public:
  /// Lists no server.
  KnownServers() = default;
  /// Lists the servers of all site files, those in config_dirs and the built-in ones: the list
  /// `slurmrestd`, and the url and token_file in `defaults.submit`. find() and all() read the
  /// files.
  KnownServers(std::vector<std::filesystem::path> config_dirs, Env env)
      : config_dirs_(std::move(config_dirs)), env_(std::move(env)) {}

  /// Returns the listed server with the same url, and with the same token file if `wanted` has one.
  /// Fails with kInvalid if there is none. The message says where to list the server, or which
  /// token file is listed for it.
  [[nodiscard]] Result<RestServer> find(const RestServer& wanted) const;

  /// Returns all servers, each url once.
  [[nodiscard]] std::vector<RestServer> all() const;

 private:
  /// Returns the entries of all site files. If an entry lacks RestServer::version or
  /// RestServer::accepted_owner, that field is taken from another entry with the same url.
  [[nodiscard]] std::vector<RestServer> listed() const;

  std::vector<std::filesystem::path> config_dirs_;
  Env env_;
};

}  // namespace dlrun
