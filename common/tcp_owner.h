#pragma once
// Finds the user at the other end of a TCP connection to a program of this machine, in the kernel's
// tables /proc/net/tcp and /proc/net/tcp6. On a machine with several users, any user can listen on
// a free port, so the port alone does not tell whose program answers.

#include <sys/socket.h>
#include <sys/types.h>

#include <optional>
#include <string_view>

namespace dlrun {

/// Returns the owner of the socket at the other end of a connected TCP socket. While the other
/// program has not accepted the connection, returns the owner of the listening socket. Returns
/// nullopt if the other end is not in the tables: it is on another machine or in another network
/// namespace, or the kernel does not show the tables. Reads both tables, which takes milliseconds
/// if there are tens of thousands of connections.
[[nodiscard]] std::optional<uid_t> owner_of_tcp_peer(int socket);

/// Finds the user as owner_of_tcp_peer() does, in the text of both tables, for a socket at `own`
/// whose other end is at `peer`. tcp, tcp6: the text of /proc/net/tcp and /proc/net/tcp6. Only for
/// owner_of_tcp_peer() and its tests.
[[nodiscard]] std::optional<uid_t> owner_of_tcp_peer_in(const sockaddr_storage& own,
                                                        const sockaddr_storage& peer,
                                                        std::string_view tcp,
                                                        std::string_view tcp6);

}  // namespace dlrun
