#pragma once
// IP literals and TCP sockets. No names are looked up: node names often do not resolve inside a
// container.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/files.h"
#include "common/result.h"

namespace dlrun::agent {

struct Endpoint {
  std::string ip;  ///< literal, IPv6 without brackets
  std::uint16_t port = 0;

  /// 10.0.0.1:4000 or [fe80::1]:4000
  [[nodiscard]] std::string text() const;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// IP:PORT[,IP:PORT...], as in DLRUN_LEAD.
[[nodiscard]] Result<std::vector<Endpoint>> parse_endpoints(std::string_view text);

struct Listener {
  UniqueFd socket;  ///< non-blocking
  std::uint16_t port = 0;
};
/// Listens on an ephemeral port, of the loopback interface only or of all.
[[nodiscard]] Result<Listener> listen_on_free_port(bool loopback_only);

/// This machine's addresses, best first: IPv4 before IPv6, networks before bridges of containers;
/// no loopback, no link-local ones.
[[nodiscard]] std::vector<std::string> own_addresses();

/// Begins to connect; the socket is non-blocking and writable when the outcome is known.
[[nodiscard]] Result<UniqueFd> begin_connect(const Endpoint& endpoint);

/// The near address of a connected socket. An IPv4 address in IPv6 clothes is shown as what it is.
[[nodiscard]] Result<std::string> near_address(int socket);
[[nodiscard]] bool is_loopback(std::string_view ip);

/// A port bound on all interfaces with SO_REUSEADDR and not listening: nobody else is given it, and
/// a program that sets SO_REUSEADDR too (servers do) can bind it meanwhile.
[[nodiscard]] Result<Listener> hold_free_port();

}  // namespace dlrun::agent
