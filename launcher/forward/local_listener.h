#pragma once
// The addresses on this machine where clients reach a port of a job.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/env.h"
#include "common/files.h"
#include "common/result.h"
#include "launcher/forward/forwarded_port.h"

namespace dlrun {

/// A listening socket. The socket accepts clients from the moment it exists.
struct LocalListener {
  UniqueFd socket;
  std::uint16_t node_port = 0;   ///< the program's port on the node
  std::uint16_t local_port = 0;  ///< the TCP port on 127.0.0.1; 0: a unix socket
  std::string path;              ///< the path of the unix socket; empty: TCP
};

/// Listens on 127.0.0.1. If the port has no LOCAL, uses the number of the port on the node. Fails
/// with kUsage if the port is in use (the message suggests a free one) or only root may use it, and
/// with kIo if a system call fails.
[[nodiscard]] Result<LocalListener> listen_on_loopback(const ForwardedPort& port);

/// A new folder for unix sockets, with mode 0700: only the user can enter it. The destructor
/// removes the folder with its content.
class SocketFolder {
 public:
  /// Creates the folder in XDG_RUNTIME_DIR, or else in TMPDIR or /tmp. Skips a variable whose path
  /// is relative, or too long for the path of a socket. Fails with kIo if no folder can be made.
  [[nodiscard]] static Result<SocketFolder> make(const Env& env);
  SocketFolder(SocketFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  SocketFolder& operator=(SocketFolder&&) = delete;
  ~SocketFolder();
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  explicit SocketFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

/// Listens on a unix socket in the folder. The name of the socket's file is the number of the port
/// on the node. Fails with kIo if this is not possible.
[[nodiscard]] Result<LocalListener> listen_in(const SocketFolder& folder, std::uint16_t node_port);

/// The listening sockets, and the folder of those that are unix sockets.
struct Listeners {
  std::optional<SocketFolder> folder;
  std::vector<LocalListener> all;
};

/// Listens for all ports. Users who logged in by ssh have their browser on another machine, and
/// share this machine with other users. Such users therefore get unix sockets, except for a port
/// with LOCAL, for which `warn` gets a warning. only_unix_sockets: every user gets unix sockets.
/// Fails with kUsage if only_unix_sockets is true and a port has LOCAL, and as listen_on_loopback()
/// and listen_in() do.
[[nodiscard]] Result<Listeners> listen_for(const Env& env, const std::vector<ForwardedPort>& ports,
                                           bool only_unix_sockets,
                                           const std::function<void(const std::string&)>& warn);

}  // namespace dlrun
