#pragma once
// `dlrun-agent sshd`: serves one ssh connection over standard input and output with the sshd of the
// node, as the job's user.

#include <filesystem>

#include "common/env.h"
#include "common/result.h"

namespace dlrun::agent {

struct SshdOptions {
  std::filesystem::path folder;  ///< absolute; has the keys that `dlrun ssh-config` made
  bool only_checks = false;      ///< finds sshd and starts nothing
};

/// Serves until the connection ends, or until SIGTERM, SIGINT or SIGHUP, and then ends every
/// process that the connection has left. Fails with kNotFound if the node has no sshd.
[[nodiscard]] Result<> run_sshd(const SshdOptions& options, const Env& env);

}  // namespace dlrun::agent
