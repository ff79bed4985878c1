#pragma once
// The slurmrestd servers that may be asked, and the token for each: those that the user's or the
// site's configuration lists. A run's files and a spec may refer to a listed server only. Otherwise
// whoever wrote these files could have the caller's token sent to a listener of their own.

#include <filesystem>
#include <vector>

#include "common/env.h"
#include "common/result.h"
#include "launcher/spec/rest_server.h"

namespace dlrun {

/// The configured slurmrestd servers.
class KnownServers {
 public:
  /// Knows no server.
  KnownServers() = default;
  /// Knows the servers of all site files, those in config_dirs and the built-in ones: the list
  /// `slurmrestd`, and the url and token_file in `defaults.submit`. find() reads the files.
  KnownServers(std::vector<std::filesystem::path> config_dirs, Env env)
      : config_dirs_(std::move(config_dirs)), env_(std::move(env)) {}

  /// Returns the listed server with the same url, and with the same token file if `named` has one.
  /// Fails with kInvalid if there is none; the message says where to list it.
  [[nodiscard]] Result<RestServer> find(const RestServer& named) const;

  /// Returns all servers, each url once.
  [[nodiscard]] std::vector<RestServer> all() const;

 private:
  [[nodiscard]] std::vector<RestServer> listed() const;

  std::vector<std::filesystem::path> config_dirs_;
  Env env_;
};

}  // namespace dlrun
