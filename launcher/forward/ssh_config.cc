#include "launcher/forward/ssh_config.h"

#include <algorithm>

#include "common/quoting.h"
#include "common/text.h"

namespace dlrun {
namespace {

/// Doubles each `%`, because ssh would replace a single one and the letter after it, as in %h.
std::string with_doubled_percents(std::string_view text) {
  std::string doubled;
  for (const char c : text) doubled += c == '%' ? std::string("%%") : std::string(1, c);
  return doubled;
}

/// Returns a path as one quoted word. ssh would end the word at a quote, and replace ${NAME} by the
/// value of a variable. No escape for these characters works in all versions of ssh, so a path with
/// one of them is an error.
Result<std::string> quoted_path(const std::filesystem::path& path) {
  const std::string text = path.string();
  if (text.find_first_of("\"\\") != std::string::npos || text.find("${") != std::string::npos ||
      std::any_of(text.begin(), text.end(), is_control)) {
    return fail(
        Errc::kInvalid,
        "{}: ssh's configuration cannot express a path with a quote, a backslash, '${{' or a "
        "control character; use another folder for the runs",
        printable(text));
  }
  return fmt::format("\"{}\"", with_doubled_percents(text));
}

}  // namespace

std::string ssh_host_name(std::string_view run_id, std::string_view node) {
  std::string name = fmt::format("dlrun-{}{}{}", run_id, node.empty() ? "" : "-", node);
  for (char& c : name) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    if (!is_plain) c = '-';
  }
  return name;
}

SshHost ssh_host_of(const IndexEntry& run, const std::string& node, const std::string& wanted_node,
                    const std::string& user, const std::filesystem::path& dlrun) {
  SshHost host;
  host.name = ssh_host_name(run.id, wanted_node);
  host.host_key_alias = ssh_host_name(run.id, "");
  host.node = node;
  host.user = user;
  host.proxy = {dlrun.string(), "ssh-config", run.path.string(), "--connect"};
  if (!wanted_node.empty()) host.proxy.insert(host.proxy.end(), {"--node", wanted_node});
  return host;
}

Result<std::string> ssh_config_text(const SshHost& host, const SshKeys& keys) {
  DLRUN_TRY_ASSIGN(const auto user_key, quoted_path(keys.user_key()));
  DLRUN_TRY_ASSIGN(const auto known_hosts, quoted_path(keys.known_hosts()));
  const std::string proxy = shell_quote_all(host.proxy);
  if (std::any_of(proxy.begin(), proxy.end(), is_control)) {
    return fail(Errc::kInvalid,
                "{}: ssh's configuration cannot express a command with control characters; install "
                "dlrun in a folder without such characters",
                printable(proxy));
  }
  // With StrictHostKeyChecking ssh asks no question: known_hosts has the key already.
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
      host.name, host.node, host.host_key_alias, host.user, user_key, known_hosts,
      with_doubled_percents(proxy));
}

}  // namespace dlrun
