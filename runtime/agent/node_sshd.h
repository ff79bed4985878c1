#pragma once
// `dlrun-agent sshd`: serves one ssh connection over standard input and output with the sshd of the
// node, as the job's user.

#include <filesystem>
#include <string>

#include "common/env.h"
#include "common/result.h"

namespace dlrun::agent {

struct SshdOptions {
  std::filesystem::path folder;  ///< absolute; has the keys that `dlrun ssh-config` made
  bool only_finds_sshd = false;  ///< only look for sshd, do not start it
};

/// Serves until the connection ends, or until SIGTERM, SIGINT or SIGHUP. Then ends every process
/// that the connection has started. Fails with kNotFound if the node has no sshd, with kRefused if
/// sshd refuses its configuration, and with kIo if a system call fails.
[[nodiscard]] Result<> run_sshd(const SshdOptions& options, const Env& env);

/// Returns the path of the node's sshd as JSON: {"sshd": "/usr/sbin/sshd"}, or {"sshd": null} if
/// the node has none.
[[nodiscard]] std::string json_of_sshd_path(const Env& env);

}  // namespace dlrun::agent
