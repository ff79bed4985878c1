#pragma once
// The slurmrestds that may be asked, and with which token: those that the user's or the site's
// configuration lists. A run's files and a spec may name one of them, and never another: whoever
// writes these could otherwise have a token of the caller's sent to a listener of their own.

#include <filesystem>
#include <vector>

#include "common/env.h"
#include "common/result.h"
#include "launcher/spec/rest_server.h"

namespace dlrun {

class KnownServers {
 public:
  /// None.
  KnownServers() = default;
  /// Those of all site files in config_dirs and of the built-in ones: what `slurmrestd` lists, and
  /// the url and token_file of `defaults.submit`. The files are read when find() is called.
  KnownServers(std::vector<std::filesystem::path> config_dirs, Env env)
      : config_dirs_(std::move(config_dirs)), env_(std::move(env)) {}

  /// The listed server that named means: the same url, and the same token file where named has one.
  /// Fails with kInvalid, and says where to list it, when there is none.
  [[nodiscard]] Result<RestServer> find(const RestServer& named) const;

 private:
  std::vector<std::filesystem::path> config_dirs_;
  Env env_;
};

}  // namespace dlrun
