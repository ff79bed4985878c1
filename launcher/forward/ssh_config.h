#pragma once
// The block of ~/.ssh/config with which ssh, scp, rsync and editors reach a run.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "launcher/forward/ssh_keys.h"
#include "launcher/runs/index.h"

namespace dlrun {

/// Returns the name of a run in ssh's configuration, such as dlrun-mnist-20261123-091002-b573. If
/// node is not empty, the name ends with the node. Characters other than letters, digits, `-`, `_`
/// and `.` become `-`, because ssh treats some of them specially.
[[nodiscard]] std::string ssh_host_name(std::string_view run_id, std::string_view node);

/// A `Host` of ssh's configuration.
struct SshHost {
  std::string name;            ///< from ssh_host_name()
  std::string host_key_alias;  ///< the name of the host's key in known_hosts
  std::string node;
  std::string user;
  std::vector<std::string> proxy;  ///< the command that connects to the node's sshd
};

/// Returns the host of a run's node. wanted_node: the node that the user gave; empty: none. user:
/// the user's name on the node. dlrun: the path of this program.
[[nodiscard]] SshHost ssh_host_of(const IndexEntry& run, const std::string& node,
                                  const std::string& wanted_node, const std::string& user,
                                  const std::filesystem::path& dlrun);

/// Returns the block as text. Fails with kInvalid if a path has characters that ssh's configuration
/// cannot express.
[[nodiscard]] Result<std::string> ssh_config_text(const SshHost& host, const SshKeys& keys);

}  // namespace dlrun
