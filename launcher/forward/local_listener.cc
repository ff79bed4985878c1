#include "launcher/forward/local_listener.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "common/text.h"

namespace dlrun {
namespace {

constexpr int kBacklog = 128;
constexpr int kFlags = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

/// Listens on 127.0.0.1. local: the port; 0: any free port. On failure, the socket is not open and
/// errno is set.
LocalListener try_loopback(std::uint16_t local) {
  LocalListener listener;
  listener.socket.reset(::socket(AF_INET, kFlags, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(local);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  const int on = 1;
  // Without SO_REUSEADDR, a port stays taken for a minute after its last connection.
  if (!listener.socket.is_open() ||
      ::setsockopt(listener.socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(listener.socket.get(), raw, length) != 0 ||
      ::listen(listener.socket.get(), kBacklog) != 0 ||
      ::getsockname(listener.socket.get(), raw, &length) != 0) {
    const int error = errno;
    listener.socket.reset();
    errno = error;
    return listener;
  }
  listener.local_port = ntohs(address.sin_port);
  return listener;
}

/// Returns a port that is free now: one of the 100 above `local` if possible, else any; 0 if there
/// is none.
std::uint16_t free_port_above(std::uint16_t local) {
  constexpr int kTries = 100;
  constexpr int kMost = 65535;
  for (int port = local + 1; port <= std::min(local + kTries, kMost); ++port) {
    if (try_loopback(static_cast<std::uint16_t>(port)).socket.is_open())
      return static_cast<std::uint16_t>(port);
  }
  return try_loopback(0).local_port;
}

}  // namespace

Result<LocalListener> listen_on_loopback(const ForwardedPort& port) {
  const std::uint16_t local = port.local_port.value_or(port.node_port);
  LocalListener listener = try_loopback(local);
  const int error = errno;
  listener.node_port = port.node_port;
  if (listener.socket.is_open()) return listener;
  if (error == EADDRINUSE) {
    const std::uint16_t free_port = free_port_above(local);
    if (free_port == 0) {
      return fail(Errc::kUsage,
                  "127.0.0.1:{}: this port of this machine is in use, and dlrun can open no other",
                  local);
    }
    return fail(Errc::kUsage,
                "127.0.0.1:{}: this port of this machine is in use; {} is free: give {}:{}", local,
                free_port, port.node_port, free_port);
  }
  if (error == EACCES) {
    return fail(Errc::kUsage,
                "127.0.0.1:{}: only root may listen on this port; give {}:LOCAL with a port from "
                "1024 on, or {}:0 for any free one",
                local, port.node_port, port.node_port);
  }
  return fail(Errc::kIo, "127.0.0.1:{}: {}", local, errno_text(error));
}

Result<SocketFolder> SocketFolder::make(const Env& env) {
  const std::array<std::string, 3> parents{env.get_or("XDG_RUNTIME_DIR", ""),
                                           env.get_or("TMPDIR", ""), "/tmp"};
  // The path of a unix socket has at most 107 bytes.
  constexpr std::size_t kLongestParent = 70;
  int error = ENOENT;
  for (const auto& parent : parents) {
    if (parent.empty() || parent.front() != '/' || parent.size() > kLongestParent) continue;
    std::string path = parent + "/dlrun-forward-XXXXXX";
    if (::mkdtemp(path.data()) != nullptr) return SocketFolder(path);
    error = errno;
  }
  return fail(Errc::kIo,
              "no folder for a socket can be made in XDG_RUNTIME_DIR, TMPDIR or /tmp: {}",
              errno_text(error));
}

SocketFolder::~SocketFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Result<LocalListener> listen_in(const SocketFolder& folder, std::uint16_t node_port) {
  LocalListener listener;
  listener.node_port = node_port;
  listener.path = (folder.path() / std::to_string(node_port)).string();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (listener.path.size() >= sizeof address.sun_path)
    return fail(Errc::kIo, "{}: the path of a socket has at most {} bytes",
                printable(listener.path), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path, listener.path.c_str(), listener.path.size() + 1);
  listener.socket.reset(::socket(AF_UNIX, kFlags, 0));
  if (!listener.socket.is_open() ||
      ::bind(listener.socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener.socket.get(), kBacklog) != 0)
    return fail(Errc::kIo, "{}: {}", printable(listener.path), errno_text(errno));
  return listener;
}

Result<Listeners> listen_for(const Env& env, const std::vector<ForwardedPort>& ports,
                             bool only_unix_sockets,
                             const std::function<void(const std::string&)>& warn) {
  Listeners listeners;
  const bool is_ssh_login = env.has("SSH_CONNECTION");
  for (const ForwardedPort& port : ports) {
    if (only_unix_sockets && port.local_port)
      return fail(
          Errc::kUsage,
          "--socket: {}:{} asks for a port of this machine, and a unix socket has none; give {}",
          port.node_port, *port.local_port, port.node_port);
    if (!only_unix_sockets && (port.local_port || !is_ssh_login)) {
      DLRUN_TRY_ASSIGN(auto listener, listen_on_loopback(port));
      if (is_ssh_login) {
        warn(fmt::format(
            "every user of this machine can connect to 127.0.0.1:{}; give {} instead of "
            "{}:{}, and dlrun uses a socket that only you can open",
            listener.local_port, port.node_port, port.node_port, *port.local_port));
      }
      listeners.all.push_back(std::move(listener));
      continue;
    }
    if (!listeners.folder) {
      DLRUN_TRY_ASSIGN(auto folder, SocketFolder::make(env));
      listeners.folder.emplace(std::move(folder));
    }
    DLRUN_TRY_ASSIGN(auto listener, listen_in(*listeners.folder, port.node_port));
    listeners.all.push_back(std::move(listener));
  }
  return listeners;
}

}  // namespace dlrun
