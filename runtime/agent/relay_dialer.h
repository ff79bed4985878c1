#pragma once
// Connects to a port of this node. If no program listens on the port yet, tries again for a while.

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/files.h"
#include "common/tcp_owner.h"

namespace dlrun::agent {

/// Tries one port until a program accepts: on the loopback addresses, then on the other addresses
/// of this node, because some programs listen on one address only. Not thread-safe. The owner polls
/// fd() and calls advance().
class RelayDialer {
 public:
  using Clock = std::chrono::steady_clock;

  /// The dialer gives up after this time.
  static constexpr std::chrono::seconds kLimit{60};
  static constexpr std::chrono::milliseconds kPause{200};  ///< between two rounds of all addresses

  enum class State {
    kConnected,   ///< take() returns the socket
    kConnecting,  ///< the kernel has not answered yet: poll fd() for POLLOUT
    kWaiting,     ///< no address accepts: try again at next_deadline()
    kGivenUp,     ///< kLimit has passed
    kForeign,     ///< only a program of another user accepts: other_user()
  };
  /// Returns the owner of the other end of a connected socket; nullopt if the kernel cannot tell.
  using OwnerOf = std::optional<uid_t> (*)(int socket);

  /// owner_of: returns the owner of a program that has accepted. The dialer connects only to
  /// programs of this user and of root, and to programs whose owner is unknown. nullptr: the dialer
  /// connects to programs of all users.
  RelayDialer(std::uint16_t port, std::vector<std::string> addresses, Clock::time_point now,
              OwnerOf owner_of = owner_of_tcp_peer)
      : port_(port),
        addresses_(std::move(addresses)),
        end_(now + kLimit),
        next_round_(now),
        owner_of_(owner_of) {}

  /// Continues the connection attempt that has begun, or tries the addresses in turn. Does nothing
  /// in the pause between two rounds.
  State advance(Clock::time_point now);
  /// Returns the socket of the connection attempt that has begun; -1: none.
  [[nodiscard]] int fd() const { return socket_.get(); }
  /// Returns the time at which advance() must be called again, even if fd() is not ready.
  [[nodiscard]] Clock::time_point next_deadline() const { return fd() < 0 ? next_round_ : end_; }
  /// Returns the connected socket. Call it once advance() has returned kConnected.
  [[nodiscard]] UniqueFd take() { return std::move(socket_); }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// Returns the other user whose program has accepted; nullopt if there is none.
  [[nodiscard]] std::optional<uid_t> other_user() const { return other_user_; }

 private:
  /// Returns the state of the connection attempt; kWaiting if it has failed. Sets other_user_ if a
  /// program of another user has accepted.
  [[nodiscard]] State outcome();

  std::uint16_t port_;
  std::vector<std::string> addresses_;
  std::size_t tried_count_ = 0;  ///< the number of addresses that were tried in this round
  Clock::time_point end_, next_round_;
  OwnerOf owner_of_;
  std::optional<uid_t> other_user_;
  UniqueFd socket_;
};

/// Returns the addresses to try on this node.
[[nodiscard]] std::vector<std::string> addresses_to_dial();

}  // namespace dlrun::agent
