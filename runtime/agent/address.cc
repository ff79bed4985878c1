#include "runtime/agent/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "common/text.h"

namespace dlrun::agent {
namespace {

/// Largest number of connections that wait in the kernel until lead accepts them. Thousands of
/// ranks connect at the same time.
constexpr int kBacklog = 4096;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

std::optional<SocketAddress> socket_address(const std::string& ip, std::uint16_t port) {
  SocketAddress address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (::inet_pton(AF_INET, ip.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    address.length = sizeof *v4;
  } else if (::inet_pton(AF_INET6, ip.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    address.length = sizeof *v6;
  } else {
    return std::nullopt;
  }
  return address;
}

std::string ip_text(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address->sa_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text.data(),
                text.size());
  } else if (address->sa_family == AF_INET6) {
    const auto& ip = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&ip)) {
      ::inet_ntop(AF_INET, &ip.s6_addr[12], text.data(), text.size());
    } else {
      ::inet_ntop(AF_INET6, &ip, text.data(), text.size());
    }
  }
  return text.data();
}

/// Binds a TCP socket to a port on all interfaces: for IPv4 and IPv6, or, if the machine has no
/// IPv6, for IPv4 alone. loopback_only: binds it to 127.0.0.1 instead, or to ::1 if the machine has
/// no IPv4. port: 0 stands for any free port.
Result<BoundPort> bind_port(bool loopback_only, int flags, std::uint16_t port = 0) {
  const std::vector<std::string> candidates = loopback_only
                                                  ? std::vector<std::string>{"127.0.0.1", "::1"}
                                                  : std::vector<std::string>{"::", "0.0.0.0"};
  int error = 0;
  for (const auto& ip : candidates) {
    auto address = socket_address(ip, port);
    UniqueFd socket(::socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
    const int on = 1;
    const int off = 0;
    if (socket.is_open() && address->storage.ss_family == AF_INET6) {
      ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    }
    if (socket.is_open() &&
        ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        ::bind(socket.get(), address->get(), address->length) == 0 &&
        ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address->storage),
                      &address->length) == 0) {
      const auto bound = address->storage.ss_family == AF_INET
                             ? reinterpret_cast<const sockaddr_in*>(&address->storage)->sin_port
                             : reinterpret_cast<const sockaddr_in6*>(&address->storage)->sin6_port;
      return BoundPort{std::move(socket), ntohs(bound)};
    }
    error = errno;
  }
  if (port != 0) return fail(Errc::kIo, "TCP port {} cannot be bound: {}", port, errno_text(error));
  return fail(Errc::kIo, "no TCP port can be bound: {}", errno_text(error));
}

bool is_bridge_of_containers(std::string_view interface) {
  constexpr std::array kPrefixes{"docker", "virbr", "cni", "podman", "lxc", "veth"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](const char* prefix) { return interface.starts_with(prefix); });
}

}  // namespace

std::string Endpoint::text() const {
  return ip.find(':') == std::string::npos ? fmt::format("{}:{}", ip, port)
                                           : fmt::format("[{}]:{}", ip, port);
}

Result<std::vector<Endpoint>> parse_endpoints(std::string_view text) {
  std::vector<Endpoint> endpoints;
  for (const auto part : split(text, ',')) {
    const auto colon = part.rfind(':');
    auto ip = part.substr(0, std::min(colon, part.size()));
    const bool has_brackets = ip.size() > 2 && ip.front() == '[' && ip.back() == ']';
    if (has_brackets) ip = ip.substr(1, ip.size() - 2);
    const bool is_v6 = ip.find(':') != std::string_view::npos;
    const auto port =
        parse_int(part.substr(colon == std::string_view::npos ? part.size() : colon + 1))
            .value_or(0);
    if (port < 1 || port > 65535 || is_v6 != has_brackets || !socket_address(std::string(ip), 0)) {
      return fail(Errc::kInvalid, "'{}' is not IP:PORT (an IP literal; IPv6 in brackets)",
                  printable(part));
    }
    endpoints.push_back({std::string(ip), static_cast<std::uint16_t>(port)});
  }
  return endpoints;
}

Result<BoundPort> listen_on_free_port(bool loopback_only) {
  auto listener = bind_port(loopback_only, SOCK_NONBLOCK);
  if (listener && ::listen(listener->socket.get(), kBacklog) != 0) {
    return fail(Errc::kIo, "TCP port {} cannot accept connections: {}", listener->port,
                errno_text(errno));
  }
  return listener;
}

Result<BoundPort> hold_free_port() {
  return bind_port(false, 0);
}

Result<BoundPort> hold_port(std::uint16_t port) {
  return bind_port(false, 0, port);
}

std::vector<std::string> lead_addresses(bool is_local) {
  constexpr std::size_t kAddressesLimit = 8;
  auto addresses = is_local ? std::vector<std::string>{} : own_addresses();
  if (addresses.empty()) addresses.emplace_back("127.0.0.1");
  if (addresses.size() > kAddressesLimit) addresses.resize(kAddressesLimit);
  return addresses;
}

std::vector<std::string> own_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owned(list, &::freeifaddrs);
  struct Found {
    int order;
    std::string ip;
  };
  std::vector<Found> found;
  for (const auto* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0 ||
        (entry->ifa_flags & IFF_LOOPBACK) != 0)
      continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    if (family == AF_INET6 &&
        IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr)) {
      continue;
    }
    found.push_back(
        {(is_bridge_of_containers(entry->ifa_name) ? 2 : 0) + (family == AF_INET6 ? 1 : 0),
         ip_text(entry->ifa_addr)});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Found& a, const Found& b) { return a.order < b.order; });
  std::vector<std::string> addresses;
  for (auto& [order, ip] : found) addresses.push_back(std::move(ip));
  return addresses;
}

namespace {

/// Binds a socket to a local address, without choosing its port: the kernel chooses the port when
/// the socket connects, so that connections to different peers may share a port.
Result<> bind_source(int socket, const std::string& ip) {
  const auto source = socket_address(ip, 0);
  if (!source) return fail(Errc::kInvalid, "'{}' is no IP literal", printable(ip));
  const int on = 1;
  ::setsockopt(socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
  if (::bind(socket, source->get(), source->length) != 0)
    return fail(Errc::kUnavailable, "{}: {}", ip, errno_text(errno));
  return {};
}

}  // namespace

Result<UniqueFd> begin_connect(const Endpoint& endpoint, const std::optional<std::string>& source) {
  const auto address = socket_address(endpoint.ip, endpoint.port);
  if (!address) return fail(Errc::kInvalid, "'{}' is no IP literal", printable(endpoint.ip));
  UniqueFd socket(
      ::socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return fail(Errc::kIo, "socket: {}", errno_text(errno));
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (source) DLRUN_TRY(bind_source(socket.get(), *source));
  if (::connect(socket.get(), address->get(), address->length) != 0 && errno != EINPROGRESS) {
    return fail(Errc::kUnavailable, "{}: {}", endpoint.text(), errno_text(errno));
  }
  return socket;
}

Result<std::string> local_address(int socket) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) {
    return fail(Errc::kIo, "getsockname: {}", errno_text(errno));
  }
  return ip_text(address.get());
}

bool is_loopback(std::string_view ip) {
  return ip.starts_with("127.") || ip == "::1";
}

std::string own_host() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return host.data();
}

}  // namespace dlrun::agent
