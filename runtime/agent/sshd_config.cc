#include "runtime/agent/sshd_config.h"

#include <algorithm>
#include <array>

#include "common/text.h"

namespace dlrun::agent {
namespace {

constexpr std::array<std::string_view, 18> kNamesKeptOut{
    "HOME",      "USER",   "LOGNAME",   "SHELL", "MAIL", "TERM",
    "DISPLAY",   "PWD",    "OLDPWD",    "SHLVL", "_",    "XAUTHORITY",
    "LS_COLORS", "EDITOR", "COLORTERM", "TMUX",  "STY",  "BASH_ENV"};
constexpr std::array<std::string_view, 8> kPrefixesKeptOut{
    "SSH_", "XDG_", "TMUX_", "DBUS_", "VSCODE_", "BASH_FUNC_", "GPG_", "WAYLAND_"};

/// Quotes a word for sshd's configuration, whose parser knows double quotes and backslashes.
std::string config_word(std::string_view text) {
  std::string word = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') word += '\\';
    word += c;
  }
  return word + '"';
}

/// Quotes a path, and doubles each `%`, because sshd replaces %h and other tokens.
std::string config_path(const std::filesystem::path& path) {
  std::string doubled;
  for (const char c : path.string()) doubled += c == '%' ? std::string("%%") : std::string(1, c);
  return config_word(doubled);
}

}  // namespace

bool goes_into_session(std::string_view name) {
  return std::find(kNamesKeptOut.begin(), kNamesKeptOut.end(), name) == kNamesKeptOut.end() &&
         std::none_of(kPrefixesKeptOut.begin(), kPrefixesKeptOut.end(),
                      [name](std::string_view prefix) { return name.starts_with(prefix); });
}

SshdConfig sshd_config(const std::filesystem::path& folder, const Env& env,
                       bool leaves_out_values_with_quotes) {
  SshdConfig config;
  // sshd uses only the first line with SetEnv, so this line has all variables.
  std::string variables;
  for (const auto& [name, value] : env.values()) {
    if (!goes_into_session(name)) continue;
    const bool fits =
        std::none_of(value.begin(), value.end(), is_control) &&
        name.find_first_of(" \"'\\#") == std::string::npos &&
        (!leaves_out_values_with_quotes || value.find_first_of("\"'\\") == std::string::npos);
    if (fits) {
      variables += " " + config_word(name + "=" + value);
    } else {
      config.left_out.push_back(name);
    }
  }
  // This sshd has no port, and Slurm starts it as the job's user, so that only the user and root
  // can reach it. StrictModes would refuse folders that a group can write, such as those of
  // projects.
  config.text = fmt::format(
      "HostKey {}\n"
      "AuthorizedKeysFile {} .ssh/authorized_keys\n"
      "AuthenticationMethods publickey\n"
      "StrictModes no\n"
      "UsePAM no\n"
      "UseDNS no\n"
      "PidFile none\n"
      "PrintMotd no\n"
      "PrintLastLog no\n"
      "LogLevel ERROR\n"
      "ClientAliveInterval 10\n"  // Slurm does not tell a step that its srun was killed
      "ClientAliveCountMax 3\n"
      "AcceptEnv LANG LC_*\n"
      "Subsystem sftp internal-sftp\n",
      config_path(folder / "host_key"), config_path(folder / "user_key.pub"));
  if (!variables.empty()) config.text += "SetEnv" + variables + "\n";
  return config;
}

}  // namespace dlrun::agent
