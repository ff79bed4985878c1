#include "common/tcp_owner.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>

#include <doctest/doctest.h>

#include "common/files.h"

namespace dlrun {
namespace {

sockaddr_storage address_of(const char* ip, std::uint16_t port) {
  sockaddr_storage storage{};
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  if (::inet_pton(AF_INET, ip, &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&storage, &v4, sizeof v4);
  } else {
    REQUIRE(::inet_pton(AF_INET6, ip, &v6.sin6_addr) == 1);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    std::memcpy(&storage, &v6, sizeof v6);
  }
  return storage;
}

/// Listens on a free port of 127.0.0.1. Returns the port.
std::uint16_t listen_on_any_port(int socket) {
  auto address = address_of("127.0.0.1", 0);
  socklen_t length = sizeof(sockaddr_in);
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(::bind(socket, raw, length) == 0);
  REQUIRE(::listen(socket, 4) == 0);
  REQUIRE(::getsockname(socket, raw, &length) == 0);
  sockaddr_in v4{};
  std::memcpy(&v4, &address, sizeof v4);
  return ntohs(v4.sin_port);
}

UniqueFd new_socket() {
  return UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

UniqueFd connected_to(std::uint16_t port) {
  UniqueFd client = new_socket();
  const auto address = address_of("127.0.0.1", port);
  REQUIRE(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address),
                    sizeof(sockaddr_in)) == 0);
  return client;
}

/// The first line of /proc/net/tcp.
constexpr const char* kTitles =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n";

/// Returns a row of /proc/net/tcp. local, remote: for example 0100007F:1F90 for 127.0.0.1:8080.
/// state: 0A for a listener, 01 for a connection.
std::string row(const std::string& local, const std::string& remote, const char* state, int uid,
                int inode) {
  return "   0: " + local + " " + remote + " " + state +
         " 00000000:00000000 00:00000000 00000000 " + std::to_string(uid) + "        0 " +
         std::to_string(inode) + " 1 0000000000000000\n";
}

const std::string kNoPeer = "00000000:0000";

}  // namespace

TEST_CASE(
    "a connection belongs to the listener's user, and after it is accepted, to the accepting "
    "program's user") {
  const auto own = address_of("127.0.0.1", 40000), peer = address_of("127.0.0.1", 8080);
  const std::string listener = row("0100007F:1F90", kNoPeer, "0A", 7, 1);
  CHECK(owner_of_tcp_peer_in(own, peer, kTitles + listener, "") == 7U);
  // The kernel shows the user id 0 for a connection that nobody has accepted.
  const std::string waiting = row("0100007F:1F90", "0100007F:9C40", "01", 0, 0);
  CHECK(owner_of_tcp_peer_in(own, peer, kTitles + waiting + listener, "") == 7U);
  const std::string accepted = row("0100007F:1F90", "0100007F:9C40", "01", 8, 2);
  CHECK(owner_of_tcp_peer_in(own, peer, kTitles + listener + accepted, "") == 8U);
  // Another client's connection to the same port is ignored.
  const std::string other = row("0100007F:1F90", "0100007F:9C41", "01", 9, 3);
  CHECK(owner_of_tcp_peer_in(own, peer, kTitles + listener + other, "") == 7U);
}

TEST_CASE(
    "the listener with the most exact address gets the connection if several listeners have the "
    "same port") {
  const auto own = address_of("127.0.0.1", 40000), peer = address_of("127.0.0.1", 8080);
  const std::string exact = row("0100007F:1F90", kNoPeer, "0A", 1, 1);
  const std::string any = row("00000000:1F90", kNoPeer, "0A", 2, 1);
  const std::string no_peer6 = "00000000000000000000000000000000:0000";
  const std::string mapped = row("0000000000000000FFFF00000100007F:1F90", no_peer6, "0A", 3, 1);
  const std::string any6 = row("00000000000000000000000000000000:1F90", no_peer6, "0A", 4, 1);
  CHECK(owner_of_tcp_peer_in(own, peer, any + exact, any6 + mapped) == 1U);
  CHECK(owner_of_tcp_peer_in(own, peer, any, any6 + mapped) == 3U);
  CHECK(owner_of_tcp_peer_in(own, peer, any, any6) == 2U);
  CHECK(owner_of_tcp_peer_in(own, peer, "", any6) == 4U);
  CHECK_FALSE(owner_of_tcp_peer_in(own, peer, row("0100007F:1F91", kNoPeer, "0A", 1, 1), ""));
  CHECK_FALSE(owner_of_tcp_peer_in(own, peer, "damaged\n\n 0: x y z\n", ""));
  // An IPv4 listener gets no connection to an IPv6 address.
  CHECK(owner_of_tcp_peer_in(address_of("::1", 40000), address_of("::1", 8080), any, any6) == 4U);
  CHECK_FALSE(owner_of_tcp_peer_in(address_of("::1", 40000), address_of("::1", 8080), any, ""));
}

TEST_CASE(
    "the owner of a connection is found in this machine's tables before and after it is accepted") {
  const UniqueFd listener = new_socket();
  const auto port = listen_on_any_port(listener.get());
  const UniqueFd client = connected_to(port);
  CHECK(owner_of_tcp_peer(client.get()) == ::geteuid());
  const UniqueFd accepted(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  REQUIRE(accepted.is_open());
  CHECK(owner_of_tcp_peer(client.get()) == ::geteuid());
  CHECK_FALSE(owner_of_tcp_peer(listener.get()));
  if (::geteuid() != 0) return;  // only root can run code as another user
  constexpr uid_t kOtherUser = 65534;
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::uint16_t their_port = 0;
    const int socket = ::setuid(kOtherUser) == 0 ? ::socket(AF_INET, SOCK_STREAM, 0) : -1;
    their_port = listen_on_any_port(socket);
    [[maybe_unused]] const auto written = ::write(ends[1], &their_port, sizeof their_port);
    ::pause();
    ::_exit(0);
  }
  std::uint16_t their_port = 0;
  REQUIRE(::read(ends[0], &their_port, sizeof their_port) ==
          static_cast<ssize_t>(sizeof their_port));
  CHECK(owner_of_tcp_peer(connected_to(their_port).get()) == kOtherUser);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace dlrun
