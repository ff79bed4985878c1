#pragma once
// The block of ~/.ssh/config by which ssh, scp, rsync and editors reach a run.

#include <string>
#include <string_view>
#include <vector>

#include "launcher/forward/ssh_keys.h"

namespace dlrun {

/// Returns the name that ssh uses for a run, such as dlrun-mnist-4711. node: the node that was
/// asked for; empty: the first one. The name has no character that means something to ssh.
[[nodiscard]] std::string ssh_host_name(std::string_view run, std::string_view node);

struct SshHost {
  std::string name;      ///< from ssh_host_name()
  std::string key_name;  ///< under which known_hosts has the host's key
  std::string node;
  std::string user;
  std::vector<std::string> proxy;  ///< the command that connects to the node's sshd
};

/// Returns the block as text.
[[nodiscard]] std::string ssh_config_text(const SshHost& host, const SshKeys& keys);

}  // namespace dlrun
