#pragma once
// The keys of ssh connections into a run: the folder `ssh` of the run.

#include <filesystem>
#include <string>

#include "common/env.h"
#include "common/result.h"

namespace dlrun {

/// The keys of one run. The folder has mode 0700.
struct SshKeys {
  std::filesystem::path folder;
  [[nodiscard]] std::filesystem::path user_key() const { return folder / "user_key"; }
  [[nodiscard]] std::filesystem::path known_hosts() const { return folder / "known_hosts"; }
};

/// Returns the run's keys. Makes them with ssh-keygen if there are none: host_key of the sshd,
/// user_key of the client, and known_hosts, which has the host's key under the name `host`. If
/// several processes make keys at the same time, all use the keys of the process that was first.
/// Fails with kNotFound if this machine has no ssh-keygen, with kInvalid if the folder is not the
/// caller's own, and with kIo if ssh-keygen fails or the files cannot be written.
[[nodiscard]] Result<SshKeys> ensure_ssh_keys(const Env& env, const std::filesystem::path& run,
                                              const std::string& host);

}  // namespace dlrun
