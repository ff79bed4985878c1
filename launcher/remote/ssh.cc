#include "launcher/remote/ssh.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
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

constexpr std::size_t kLongestSocket = 90;  ///< the path of a socket has fewer characters
constexpr int kCommandSessions = 6, kRsyncSessions = 2;

/// Makes the folder unless it exists. Fails if the folder belongs to another user, or if another
/// user can enter it.
Result<> ensure_private_folder(const std::filesystem::path& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return fail(Errc::kIo, "cannot make {}: {}", printable(folder.string()), errno_text(errno));
  struct stat status {};
  if (::lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
      status.st_uid == ::geteuid() && (status.st_mode & 077) == 0)
    return {};
  return fail(Errc::kInvalid,
              "{}: is not a private folder of yours; connections to hosts would be open to others",
              printable(folder.string()));
}

/// Makes and returns the folder of the sockets: below $XDG_RUNTIME_DIR, else in `tmp`, else
/// below ~/.cache. The folder in `tmp` cannot be used if another user has made a folder of its
/// name. ~/.cache comes last, because not every network file system supports sockets.
Result<std::filesystem::path> make_socket_folder(const Env& env, const std::filesystem::path& tmp) {
  const auto fits = [](const std::filesystem::path& folder) {
    constexpr std::size_t kSocketName = 32;
    return folder.is_absolute() && folder.string().size() + kSocketName < kLongestSocket;
  };
  const std::filesystem::path runtime_dir = env.get_or("XDG_RUNTIME_DIR", "");
  const auto preferred = runtime_dir / "dlrun-ssh";
  if (fits(preferred) && ::access(runtime_dir.c_str(), W_OK) == 0 &&
      ensure_private_folder(preferred))
    return preferred;
  const auto usual = tmp / fmt::format("dlrun-ssh-{}", ::geteuid());
  const auto made = ensure_private_folder(usual);
  if (made) return usual;
  const auto fallback = std::filesystem::path(env.get_or("HOME", "")) / ".cache/dlrun/ssh";
  if (fits(fallback) && make_private_directories(fallback) && ensure_private_folder(fallback)) {
    log_info("another folder holds the connections",
             {{"instead_of", usual.string()}, {"folder", fallback.string()}});
    return fallback;
  }
  return fail(made.error().code, "{}. Set XDG_RUNTIME_DIR to a folder of yours with a short path{}",
              made.error().message,
              made.error().code == Errc::kInvalid ? ", or remove this one" : "");
}

/// Returns the name of the socket: the start of ssh's destination, and a hash of the destination
/// and of the user's home. The hash includes the home, because its .ssh/config gives the
/// destination its meaning.
std::string socket_name(const HostFile& host, const Env& env) {
  constexpr std::size_t kShown = 16, kHash = 12;
  const std::string all = host.ssh_destination + '\n' + env.get_or("HOME", "");
  return host.ssh_destination.substr(0, kShown) + "-" + sha256_of_text(all).substr(0, kHash);
}

/// Returns the command line of a process, such as "`dlrun host login juwels` (process 4711)", or
/// "another dlrun" if the command line cannot be read.
std::string process_text(std::string_view pid) {
  const auto words = read_file(fmt::format("/proc/{}/cmdline", pid), std::size_t{64} << 10U);
  if (!parse_int(pid) || !words || words->empty()) return "another dlrun";
  constexpr std::size_t kShown = 200;
  std::string line = words->substr(0, words->find_last_not_of('\0') + 1);
  std::replace(line.begin(), line.end(), '\0', ' ');
  return fmt::format("`{}` (process {})", printable(line.substr(0, kShown)), pid);
}

/// Takes the lock under which a connection is opened. Without the lock, two commands that start
/// together would open two connections, and one of them would stay open unused. The file has the
/// process id of the process that holds the lock, or that held it last. Fails with kUnavailable at
/// the end of `patience`.
Result<UniqueFd> lock_opening(const Ssh& ssh, std::chrono::seconds patience) {
  const std::string file = ssh.socket().string() + ".lock";
  UniqueFd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.is_open()) return fail(Errc::kIo, "cannot open {}: {}", file, errno_text(errno));
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return fd;  // a file system without locks
    if (std::chrono::steady_clock::now() >= deadline) {
      const auto holder = read_file(file, 32);
      return fail(Errc::kUnavailable,
                  "{}: {} has been opening the connection for {} s; it may wait for a password or "
                  "a code on its terminal. Answer there, or end it, and try again",
                  ssh.host().name, process_text(holder ? trim(*holder) : ""), patience.count());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  if (::ftruncate(fd.get(), 0) == 0)
    static_cast<void>(write_all(fd.get(), fmt::format("{}\n", ::getpid())));
  return fd;
}

}  // namespace

Result<Ssh> Ssh::of_host(HostFile host, Env env, bool can_ask, const std::filesystem::path& tmp) {
  DLRUN_TRY_ASSIGN(const auto folder, make_socket_folder(env, tmp));
  const auto socket = folder / socket_name(host, env);
  // ssh's SendEnv could pass DLRUN_HOST on to the host. dlrun would look there for hosts/NAME.yaml,
  // which only this machine has.
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

std::vector<std::string> Ssh::opener_argv() const {
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
  argv.push_back(host_.ssh_destination);
  return argv;
}

Result<> Ssh::open(bool is_login, std::chrono::seconds patience) const {
  if (host_.master == MasterUse::kNone) return {};
  if (is_open()) return {};
  if (host_.master == MasterUse::kExisting && !is_login) {
    return fail(Errc::kUnavailable,
                "no connection to {0} is open, and the host's file says `master: existing`; run "
                "`dlrun host login {0}` first",
                host_.name);
  }
  DLRUN_TRY_ASSIGN(const auto lock, lock_opening(*this, patience));
  if (is_open()) return {};
  ::unlink(socket_.c_str());  // the socket of a connection that has ended
  DLRUN_TRY_ASSIGN(const auto ended, run_program_that_may_ask(opener_argv(), env_, can_ask_));
  if (ended.exit_code == 0 && is_open()) return {};
  return fail(Errc::kUnavailable, "{}", connection_error_text(*this, ended.err));
}

Result<UniqueFd> Ssh::lock_session_slot(bool is_rsync, std::chrono::seconds patience) const {
  if (host_.master == MasterUse::kNone) return UniqueFd();
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const int session_count = is_rsync ? kRsyncSessions : kCommandSessions;
  for (;;) {
    for (int i = 0; i < session_count; ++i) {
      const std::string file =
          fmt::format("{}.{}{}.lock", socket_.string(), is_rsync ? "rsync" : "session", i);
      UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
      if (!fd.is_open()) return fail(Errc::kIo, "cannot open {}: {}", file, errno_text(errno));
      if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EINTR))
        return fd;
    }
    if (std::chrono::steady_clock::now() >= deadline && is_rsync) {
      return fail(
          Errc::kUnavailable,
          "{}: {} copies by rsync use the connection already, and the host's sshd may refuse "
          "more; try again when one of them has ended",
          host_.name, session_count);
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return fail(Errc::kUnavailable,
                  "{}: {} commands use the connection already, and the host's sshd may refuse "
                  "more; end one of them, such as a `logs -f`, and try again",
                  host_.name, session_count);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

Result<bool> Ssh::close() const {
  if (!is_open()) return false;
  Command command;
  command.argv = {"ssh", "-S", socket_.string(), "-O", "exit", "--", host_.ssh_destination};
  command.env = env_;
  DLRUN_TRY_ASSIGN(const auto ended, run_command(command));
  if (ended.exit_code == 0) return true;
  return fail(Errc::kIo, "{}: the connection could not be closed: {}", host_.name, trim(ended.err));
}

std::vector<std::string> Ssh::command_argv(const std::vector<std::string>& arguments,
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
  argv.insert(argv.end(), {"-e", "none", "--", host_.ssh_destination});
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return argv;
}

std::vector<std::string> Ssh::arguments_that_start(const std::string& program,
                                                   const std::string& word) const {
  if (!host_.uses_login_shell) return {program, "--remote", word};
  // `program` and `word` have no character that shells treat differently inside single quotes.
  return {"exec", "bash", "-lc", fmt::format("'exec {} --remote {}'", program, word)};
}

std::string connection_error_text(const Ssh& ssh, std::string_view printed) {
  const HostFile& host = ssh.host();
  const std::string lines = with_unix_line_ends(printed);
  const std::string_view reason = trim(lines);
  std::string text =
      fmt::format("{}: ssh could not connect{}{}", host.name, reason.empty() ? "" : ": ", reason);
  if (!ssh.can_ask() && host.master == MasterUse::kNone) {
    text += fmt::format(
        "\nssh has no terminal here on which it could ask for a password or a code. If it has to "
        "ask, set `master: auto` in the host's file and run `dlrun host login {}` on a terminal "
        "first",
        host.name);
  } else if (!ssh.can_ask()) {
    text += fmt::format(
        "\nssh has no terminal here on which it could ask for a password or a code. If it has to "
        "ask, run `dlrun host login {}` on a terminal first; later commands share that connection",
        host.name);
  }
  return text + fmt::format("\nTo try the connection without dlrun: ssh {}", host.ssh_destination);
}

}  // namespace dlrun
