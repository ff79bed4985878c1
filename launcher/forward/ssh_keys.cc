#include "launcher/forward/ssh_keys.h"

#include "common/files.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "launcher/runs/tools.h"

namespace dlrun {
namespace {

constexpr std::size_t kKeyLimitBytes = 16U << 10U;

Result<> make_key(const Env& env, const std::filesystem::path& file) {
  Command command;
  command.argv = {"ssh-keygen", "-q", "-t",    "ed25519", "-N",
                  "",           "-C", "dlrun", "-f",      file.string()};
  command.env = env;
  const auto made = run_command(command);
  if (!made && made.error().code == Errc::kNotFound) {
    return fail(Errc::kNotFound,
                "{}; ssh connections need the OpenSSH client on this machine (package "
                "openssh-client)",
                made.error().message);
  }
  if (!made) return tl::unexpected(made.error());
  if (made->exit_code != 0) {
    return fail(Errc::kIo, "ssh-keygen cannot make {}: {}", printable(file.string()),
                trim(made->err.empty() ? made->out : made->err));
  }
  return {};
}

/// Makes the folder, the two keys and known_hosts. host: the name of the host's key in known_hosts.
Result<> make_keys(const Env& env, const std::filesystem::path& folder, const std::string& host) {
  DLRUN_TRY(make_private_directories(folder));
  for (const char* name : {"host_key", "user_key"}) DLRUN_TRY(make_key(env, folder / name));
  DLRUN_TRY_ASSIGN(const auto key,
                   read_untrusted(folder / "host_key.pub", kKeyLimitBytes, Links::kRefuse));
  return write_file_atomic(folder / "known_hosts", fmt::format("{} {}\n", host, trim(key)));
}

}  // namespace

Result<SshKeys> ensure_ssh_keys(const Env& env, const std::filesystem::path& run,
                                const std::string& host) {
  SshKeys keys{run / "ssh"};
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(keys.folder, error))) {
    const auto temporary = run / (".ssh-" + random_hex(8));
    const auto made = make_keys(env, temporary, host);
    if (made) std::filesystem::rename(temporary, keys.folder, error);
    // If another process was faster, its folder is not empty, and the rename has failed.
    std::error_code ignored;
    std::filesystem::remove_all(temporary, ignored);
    if (!made) return tl::unexpected(made.error());
    if (error && !std::filesystem::exists(keys.folder, ignored))
      return fail(Errc::kIo, "cannot make {}: {}", printable(keys.folder.string()),
                  error.message());
  }
  DLRUN_TRY(check_own_folder(keys.folder, "remove it"));
  return keys;
}

}  // namespace dlrun
