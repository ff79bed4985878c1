#include "launcher/remote/ssh.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "common/log.h"
#include "common/sha256.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "launcher/remote/remote_process.h"

namespace dlrun {
namespace {

constexpr std::size_t kLongestSocket = 90;
constexpr int kCommandSessions = 6, kRsyncSessions = 2;

/// Makes the folder. If it exists, checks that it is the caller's and that no other user can enter.
Result<> make_folder(const std::filesystem::path& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return fail(Errc::kIo, "cannot make {}: {}", folder.string(), errno_text(errno));
  struct stat status {};
  if (::lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
      status.st_uid == ::geteuid() && (status.st_mode & 077) == 0)
    return {};
  return fail(Errc::kInvalid,
              "{}: is not a private folder of yours; connections to hosts would be open to others. "
              "Remove it, or set XDG_RUNTIME_DIR",
              folder.string());
}

/// Returns the folder of the sockets.
std::filesystem::path socket_folder(const Env& env) {
  const std::filesystem::path runtime = env.get_or("XDG_RUNTIME_DIR", "");
  const auto preferred = runtime / "dlrun-ssh";
  if (runtime.is_absolute() && ::access(runtime.c_str(), W_OK) == 0 &&
      preferred.string().size() + 32 < kLongestSocket)
    return preferred;
  return fmt::format("/tmp/dlrun-ssh-{}", ::geteuid());
}

/// Returns the start of the alias and a hash of the whole alias and the user's home, whose
/// ~/.ssh/config defines the alias.
std::string socket_name(const HostFile& host, const Env& env) {
  constexpr std::size_t kShown = 16, kHash = 12;
  const std::string all = host.ssh + '\n' + env.get_or("HOME", "");
  return host.ssh.substr(0, kShown) + "-" + sha256_of_text(all).substr(0, kHash);
}

/// Takes the lock under which a connection is opened. Without the lock, two commands that start
/// together would open two connections, and one of them would stay open unused.
UniqueFd lock_opening(const std::filesystem::path& socket) {
  UniqueFd fd(::open((socket.string() + ".lock").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  while (fd.is_open() && ::flock(fd.get(), LOCK_EX) != 0 && errno == EINTR) {
  }
  return fd;
}

}  // namespace

Result<Ssh> Ssh::of_host(HostFile host, Env env, bool can_ask) {
  const auto folder = socket_folder(env);
  DLRUN_TRY(make_folder(folder));
  const auto socket = folder / socket_name(host, env);
  // ssh's SendEnv could pass DLRUN_HOST on, and the host does not know this name.
  env.unset("DLRUN_HOST");
  return Ssh(std::move(host), std::move(env), socket, can_ask);
}

bool Ssh::is_open() const {
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = socket_.string();
  if (!fd.is_open() || path.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, path.data(), path.size());
  return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

std::vector<std::string> Ssh::opener() const {
  std::vector<std::string> argv{"ssh", "-M", "-N", "-f", "-T", "-S", socket_.string()};
  const auto option = [&](std::string text) {
    argv.emplace_back("-o");
    argv.push_back(std::move(text));
  };
  option("ControlMaster=yes");
  option("ControlPersist=" + host_.persist);
  option("ClearAllForwardings=yes");
  option("RemoteCommand=none");
  option("PermitLocalCommand=no");
  option("ServerAliveInterval=15");
  option("ServerAliveCountMax=3");
  option("ConnectTimeout=30");
  if (!can_ask_) option("BatchMode=yes");
  argv.emplace_back("--");
  argv.push_back(host_.ssh);
  return argv;
}

Result<> Ssh::open(bool is_login) const {
  if (host_.master == MasterUse::kNone) return {};
  if (is_open()) return {};
  if (host_.master == MasterUse::kExisting && !is_login) {
    return fail(Errc::kUnavailable,
                "no connection to {0} is open, and its file says `master: existing`; run `dlrun "
                "host login {0}` first",
                host_.name);
  }
  const auto lock = lock_opening(socket_);
  if (is_open()) return {};
  ::unlink(socket_.c_str());  // the socket of a connection that has ended
  DLRUN_TRY_ASSIGN(const auto ended, run_on_terminal(opener(), env_, can_ask_));
  if (ended.exit_code == 0 && is_open()) return {};
  return fail(Errc::kUnavailable, "{}", connection_text(*this, ended.err));
}

Result<UniqueFd> Ssh::take_session(bool is_rsync, std::chrono::seconds patience) const {
  if (host_.master == MasterUse::kNone) return UniqueFd();
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const int sessions = is_rsync ? kRsyncSessions : kCommandSessions;
  for (;;) {
    for (int i = 0; i < sessions; ++i) {
      const std::string file =
          fmt::format("{}.{}{}.lock", socket_.string(), is_rsync ? "rsync" : "session", i);
      UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
      if (!fd.is_open()) return fail(Errc::kIo, "cannot open {}: {}", file, errno_text(errno));
      if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EINTR))
        return fd;
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return fail(Errc::kUnavailable,
                  "{}: {} commands use the connection already, and its sshd may refuse more; end "
                  "one of them, such as a `logs -f`, and try again",
                  host_.name, sessions);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

Result<bool> Ssh::close() const {
  if (!is_open()) return false;
  Command command;
  command.argv = {"ssh", "-S", socket_.string(), "-O", "exit", "--", host_.ssh};
  command.env = env_;
  DLRUN_TRY_ASSIGN(const auto ended, run_command(command));
  if (ended.exit_code == 0) return true;
  return fail(Errc::kIo, "{}: the connection could not be closed: {}", host_.name, trim(ended.err));
}

std::vector<std::string> Ssh::command(const std::vector<std::string>& arguments,
                                      bool wants_terminal) const {
  std::vector<std::string> argv{"ssh", wants_terminal ? "-tt" : "-T"};
  const auto option = [&](std::string text) {
    argv.emplace_back("-o");
    argv.push_back(std::move(text));
  };
  if (host_.master == MasterUse::kNone) {
    // Without a person to ask, ssh must not stop at a question.
    if (!can_ask_) option("BatchMode=yes");
    option("ControlMaster=no");
    option("ControlPath=none");
    option("ServerAliveInterval=15");
    option("ServerAliveCountMax=3");
    option("ConnectTimeout=30");
  } else {
    // With these options ssh uses the open connection, and fails if there is none.
    argv.emplace_back("-S");
    argv.push_back(socket_.string());
    option("ControlMaster=no");
    option("BatchMode=yes");
    option("ProxyCommand=false");
  }
  option("ClearAllForwardings=yes");
  option("RemoteCommand=none");
  option("PermitLocalCommand=no");
  argv.insert(argv.end(), {"-e", "none", "--", host_.ssh});
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return argv;
}

std::vector<std::string> Ssh::start_of(const std::string& program, const std::string& word) const {
  if (!host_.login_shell) return {program, "--remote", word};
  // All shells read single quotes around these characters alike.
  return {"exec", "bash", "-lc", fmt::format("'exec {} --remote {}'", program, word)};
}

std::string connection_text(const Ssh& ssh, std::string_view printed) {
  const HostFile& host = ssh.host();
  const std::string_view reason = trim(printed);
  std::string text =
      fmt::format("{}: ssh could not connect{}{}", host.name, reason.empty() ? "" : ": ", reason);
  if (!ssh.can_ask() && host.master == MasterUse::kNone) {
    text +=
        "\nssh has no terminal here on which it could ask for a password or a code. If it has to "
        "ask, set `master: auto` in the host's file";
  } else if (!ssh.can_ask()) {
    text += fmt::format(
        "\nssh has no terminal here on which it could ask for a password or a code. If it has to "
        "ask, run `dlrun host login {}` on a terminal first; later commands share that connection",
        host.name);
  }
  return text + fmt::format("\nTo try the connection without dlrun: ssh {}", host.ssh);
}

}  // namespace dlrun
