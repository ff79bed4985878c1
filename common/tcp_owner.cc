#include "common/tcp_owner.h"

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/files.h"
#include "common/text.h"

namespace dlrun {
namespace {

constexpr std::size_t kLargestTableBytes = 256U << 20U;  ///< 1.8 million lines of 150 bytes

/// An address as /proc/net/tcp and /proc/net/tcp6 (the tables) write it: words of 32 bits in the
/// byte order of this machine.
struct TableAddress {
  std::string v4;  ///< for /proc/net/tcp; empty for an address of IPv6
  std::string v6;  ///< for /proc/net/tcp6; an IPv4 address in the form that IPv6 sockets use
  std::string port;
};

/// Returns a socket's address as the tables write it; nullopt if it is neither IPv4 nor IPv6.
std::optional<TableAddress> table_address(const sockaddr_storage& binary) {
  std::array<std::uint32_t, 4> words{};
  if (binary.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &binary, sizeof v4);
    words = {0, 0, htonl(0xFFFF), v4.sin_addr.s_addr};
    return TableAddress{
        fmt::format("{:08X}", words[3]),
        fmt::format("{:08X}{:08X}{:08X}{:08X}", words[0], words[1], words[2], words[3]),
        fmt::format("{:04X}", ntohs(v4.sin_port))};
  }
  if (binary.ss_family != AF_INET6) return std::nullopt;
  sockaddr_in6 v6{};
  std::memcpy(&v6, &binary, sizeof v6);
  std::memcpy(words.data(), &v6.sin6_addr, sizeof words);
  TableAddress address{
      {},
      fmt::format("{:08X}{:08X}{:08X}{:08X}", words[0], words[1], words[2], words[3]),
      fmt::format("{:04X}", ntohs(v6.sin6_port))};
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) address.v4 = fmt::format("{:08X}", words[3]);
  return address;
}

/// One line of a table.
struct TableRow {
  std::string_view local, remote, state;  ///< "0100007F:1F90", "00000000:0000", "0A"
  uid_t uid = 0;
  bool is_open = false;  ///< a program has the socket open
};

/// Returns the row of a line; nullopt for the line of titles and for other text.
std::optional<TableRow> row_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (const std::string_view word : split(line, ' ')) {
    if (!word.empty()) words.push_back(word);
  }
  // sl local remote state queues timer retransmits uid timeout inode
  if (words.size() < 10) return std::nullopt;
  const auto uid = parse_int(words[7]), inode = parse_int(words[9]);
  if (!uid || !inode) return std::nullopt;
  return TableRow{words[1], words[2], words[3], static_cast<uid_t>(*uid), *inode != 0};
}

/// Calls a function for each row of the table.
template <typename F>
void for_each_row(std::string_view table, const F& call) {
  while (!table.empty()) {
    const auto end = std::min(table.find('\n'), table.size());
    if (const auto row = row_of(table.substr(0, end))) call(*row);
    table.remove_prefix(std::min(end + 1, table.size()));
  }
}

/// Returns a number for how well a listening socket fits a connection to the address: the kernel
/// gives the connection to the listener with the largest number. 0: the socket never gets the
/// connection.
int fit_of(const TableRow& row, const TableAddress& peer, bool is_table_of_v6) {
  const auto colon = row.local.find(':');
  if (row.state != "0A" || colon == std::string_view::npos ||
      row.local.substr(colon + 1) != peer.port)
    return 0;
  const std::string_view address = row.local.substr(0, colon);
  const bool is_any = address.find_first_not_of('0') == std::string_view::npos;
  if (!is_table_of_v6) return peer.v4.empty() ? 0 : address == peer.v4 ? 4 : is_any ? 2 : 0;
  return address == peer.v6 ? 3 : is_any ? 1 : 0;
}

}  // namespace

std::optional<uid_t> owner_of_tcp_peer_in(const sockaddr_storage& own, const sockaddr_storage& peer,
                                          std::string_view tcp, std::string_view tcp6) {
  const auto from = table_address(own), to = table_address(peer);
  if (!from || !to) return std::nullopt;
  const auto is_at = [](std::string_view text, const std::string& address,
                        const std::string& port) {
    return !address.empty() && text == address + ":" + port;
  };
  std::optional<uid_t> owner_of_accepted, owner_of_listener;
  int best = 0;
  for (const bool is_v6 : {false, true}) {
    for_each_row(is_v6 ? tcp6 : tcp, [&](const TableRow& row) {
      const bool is_connection = is_at(row.local, is_v6 ? to->v6 : to->v4, to->port) &&
                                 is_at(row.remote, is_v6 ? from->v6 : from->v4, from->port);
      // The kernel shows root as the owner of a connection that no program has accepted yet.
      if (is_connection && row.is_open) owner_of_accepted = row.uid;
      const int fit = fit_of(row, *to, is_v6);
      if (fit <= best) return;
      best = fit;
      owner_of_listener = row.uid;
    });
  }
  return owner_of_accepted ? owner_of_accepted : owner_of_listener;
}

std::optional<uid_t> owner_of_tcp_peer(int socket) {
  sockaddr_storage own{}, peer{};
  socklen_t own_length = sizeof own, peer_length = sizeof peer;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_length) != 0 ||
      ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &peer_length) != 0)
    return std::nullopt;
  const auto tcp = read_file("/proc/net/tcp", kLargestTableBytes);
  const auto tcp6 = read_file("/proc/net/tcp6", kLargestTableBytes);  // missing without IPv6
  return owner_of_tcp_peer_in(own, peer, tcp ? *tcp : "", tcp6 ? *tcp6 : "");
}

}  // namespace dlrun
