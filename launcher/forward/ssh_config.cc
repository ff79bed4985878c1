#include "launcher/forward/ssh_config.h"

#include "common/quoting.h"
#include "common/text.h"

namespace dlrun {
namespace {

/// Doubles each %, which ssh would replace.
std::string without_tokens(std::string_view text) {
  std::string doubled;
  for (const char c : text) doubled += c == '%' ? std::string("%%") : std::string(1, c);
  return doubled;
}

std::string quoted_path(const std::filesystem::path& path) {
  return fmt::format("\"{}\"", without_tokens(path.string()));
}

}  // namespace

std::string ssh_host_name(std::string_view run, std::string_view node) {
  std::string name = fmt::format("dlrun-{}{}{}", run, node.empty() ? "" : "-", node);
  for (char& c : name) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    if (!is_plain) c = '-';
  }
  return name;
}

std::string ssh_config_text(const SshHost& host, const SshKeys& keys) {
  // StrictHostKeyChecking: the key is known, so ssh never asks.
  return fmt::format(
      "Host {}\n"
      "  HostName {}\n"
      "  HostKeyAlias {}\n"
      "  User {}\n"
      "  IdentityFile {}\n"
      "  IdentitiesOnly yes\n"
      "  UserKnownHostsFile {}\n"
      "  StrictHostKeyChecking yes\n"
      "  ProxyCommand {}\n",
      host.name, host.node, host.key_name, host.user, quoted_path(keys.user_key()),
      quoted_path(keys.known_hosts()), without_tokens(shell_quote_all(host.proxy)));
}

}  // namespace dlrun
