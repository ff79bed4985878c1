#include "runtime/agent/relay_dialer.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "runtime/agent/address.h"

namespace dlrun::agent {
namespace {

/// Returns true if the socket is connected to itself. This happens if nobody listens on the port
/// and the kernel chooses the same port as the local port of the socket.
bool is_connected_to_itself(int socket) {
  sockaddr_storage own{}, peer{};
  socklen_t own_length = sizeof own, peer_length = sizeof peer;
  return ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_length) == 0 &&
         ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &peer_length) == 0 &&
         own_length == peer_length && std::memcmp(&own, &peer, own_length) == 0;
}

}  // namespace

std::vector<std::string> addresses_to_dial() {
  std::vector<std::string> addresses{"127.0.0.1", "::1"};
  for (auto& address : own_addresses()) addresses.push_back(std::move(address));
  return addresses;
}

RelayDialer::State RelayDialer::outcome() {
  pollfd writable{socket_.get(), POLLOUT, 0};
  if (::poll(&writable, 1, 0) == 0) return State::kConnecting;
  int error = 0;
  socklen_t size = sizeof error;
  const bool is_connected = ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 &&
                            error == 0 && !is_connected_to_itself(socket_.get());
  if (!is_connected) return State::kWaiting;
  const auto owner = owner_of_ != nullptr ? owner_of_(socket_.get()) : std::nullopt;
  if (!owner || *owner == 0 || *owner == ::geteuid()) return State::kConnected;
  other_user_ = owner;
  return State::kWaiting;
}

RelayDialer::State RelayDialer::advance(Clock::time_point now) {
  const State unconnected = now >= end_ ? State::kGivenUp : State::kWaiting;
  if (!socket_.is_open() && now < next_round_) return unconnected;
  for (;;) {
    if (socket_.is_open()) {
      const State state = outcome();
      if (state == State::kConnected) return state;
      if (state == State::kConnecting && now < end_) return state;
      socket_.reset();
    }
    if (tried_count_ == addresses_.size()) break;
    if (auto begun = begin_connect({addresses_[tried_count_++], port_}))
      socket_ = std::move(*begun);
  }
  // The user's own program may listen on another address, so all addresses are tried first.
  if (other_user_) return State::kForeign;
  tried_count_ = 0;
  next_round_ = now + kPause;
  return unconnected;
}

}  // namespace dlrun::agent
