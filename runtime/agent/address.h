#pragma once
// IP literals and TCP sockets. No function here resolves host names, because node names often do
// not resolve inside a container.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/files.h"
#include "common/result.h"

namespace dlrun::agent {

struct Endpoint {
  std::string ip;  ///< IP literal; IPv6 without brackets
  std::uint16_t port = 0;

  /// Returns text such as 10.0.0.1:4000 or [fe80::1]:4000.
  [[nodiscard]] std::string text() const;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// Parses IP:PORT[,IP:PORT...], the form of DLRUN_LEAD. Fails with kInvalid.
[[nodiscard]] Result<std::vector<Endpoint>> parse_endpoints(std::string_view text);

/// A TCP port that this process has bound.
struct BoundPort {
  UniqueFd socket;  ///< listens, and does not block, if it is from listen_on_free_port()
  std::uint16_t port = 0;
};
/// Listens on an ephemeral port of the loopback interface only, or of all interfaces. Fails with
/// kIo.
[[nodiscard]] Result<BoundPort> listen_on_free_port(bool loopback_only);

/// Returns this machine's addresses, best first. The addresses of container bridges come last; in
/// both groups IPv4 comes before IPv6. Leaves out interfaces that are down, loopback addresses and
/// link-local IPv6 addresses. Returns an empty list if the interfaces cannot be read.
[[nodiscard]] std::vector<std::string> own_addresses();

/// Returns the addresses over which ranks can reach lead on this machine, best first: at least one
/// and at most 8. Returns only 127.0.0.1 if the machine has no other address, or if is_local is
/// true, which means that all ranks run on this machine.
[[nodiscard]] std::vector<std::string> lead_addresses(bool is_local);

/// Starts a TCP connection. The returned socket is non-blocking. It becomes writable once the
/// connection is established or has failed. source: the local IP literal to connect from; nullopt:
/// the kernel chooses it. Fails with kInvalid if an address is no IP literal, with kIo if no socket
/// can be made, and with kUnavailable if source cannot be bound or the connection fails
/// immediately.
[[nodiscard]] Result<UniqueFd> begin_connect(const Endpoint& endpoint,
                                             const std::optional<std::string>& source = {});

/// Returns the local address of a connected socket. Returns an IPv4-mapped IPv6 address
/// (::ffff:10.0.0.1) as IPv4. Fails with kIo.
[[nodiscard]] Result<std::string> local_address(int socket);
/// Returns true for ::1 and for the IPv4 addresses that begin with 127.
[[nodiscard]] bool is_loopback(std::string_view ip);

/// Binds a free port on all interfaces with SO_REUSEADDR, but does not listen. While the socket is
/// open, a program that asks the kernel for any free port does not get this one. A program that
/// sets SO_REUSEADDR, as servers do, can still bind this port by its number. Fails with kIo.
[[nodiscard]] Result<BoundPort> hold_free_port();

/// Binds the given port as hold_free_port() does. Fails with kIo if the port cannot be bound, for
/// example because a program listens on it.
[[nodiscard]] Result<BoundPort> hold_port(std::uint16_t port);

/// Returns the name of this host (gethostname(2)).
[[nodiscard]] std::string own_host();

}  // namespace dlrun::agent
