// Each run_once() reads at most one frame's payload from each socket, so that all connections share
// the trunk. The queue of bytes for the trunk is bounded: sockets are read only while the queue is
// short, and frames of all kinds except kData are small and rare. The trunk itself is always read,
// because each connection has room for one window.

#include "common/relay_mux.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "common/text.h"

namespace dlrun {
namespace {

constexpr std::size_t kQueueLimit = 256U << 10U;  ///< no socket is read while more bytes wait
constexpr std::size_t kReadBytes = 64U << 10U;

void make_nonblocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags >= 0) ::fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

bool is_temporary(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

/// Closes the socket with a TCP reset, so that the peer gets an error instead of a regular end.
void close_with_reset(UniqueFd& socket) {
  const linger none{1, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &none, sizeof none);
  socket.reset();
}

}  // namespace

RelayMux::RelayMux(Role role, int in, int out, RelayHandler& handler)
    : role_(role), in_(in), out_(out), handler_(handler), is_greeted_(role == Role::kAccepts) {
  make_nonblocking(in_);
  make_nonblocking(out_);
  if (role_ == Role::kAccepts) outgoing_ = kRelayGreeting;
}

std::uint32_t RelayMux::open(UniqueFd socket, std::uint16_t port) {
  const std::uint32_t channel = next_channel_++;
  make_nonblocking(socket.get());
  connections_[channel].socket = std::move(socket);
  append_open(outgoing_, channel, port);
  return channel;
}

void RelayMux::attach(std::uint32_t channel, UniqueFd socket) {
  const auto found = connections_.find(channel);
  if (found == connections_.end()) return;
  make_nonblocking(socket.get());
  found->second.socket = std::move(socket);
  append_frame(outgoing_, FrameKind::kOpened, channel);
  write_socket(channel, found->second);
  close_ended_directions(channel);
}

void RelayMux::tell_waiting(std::uint32_t channel) {
  if (has_channel(channel)) append_frame(outgoing_, FrameKind::kWaiting, channel);
}

void RelayMux::reset(std::uint32_t channel, std::string_view reason) {
  const auto found = connections_.find(channel);
  if (found == connections_.end()) return;
  append_frame(outgoing_, FrameKind::kReset, channel, reason.substr(0, kFramePayloadLimit));
  if (found->second.socket.is_open()) close_with_reset(found->second.socket);
  connections_.erase(found);
}

void RelayMux::append_polled(std::vector<pollfd>& polled,
                             std::vector<std::uint32_t>& channels) const {
  const bool has_queue_room = outgoing_.size() - sent_ < kQueueLimit;
  polled.push_back({in_, POLLIN, 0});
  polled.push_back({sent_ < outgoing_.size() ? out_ : -1, POLLOUT, 0});
  for (const auto& [channel, connection] : connections_) {
    short events = 0;
    if (connection.state.sendable_bytes() > 0 && has_queue_room) events |= POLLIN;
    if (!connection.state.unwritten().empty()) events |= POLLOUT;
    // A descriptor without events would still report a hang-up, again and again.
    if (!connection.socket.is_open() || events == 0) continue;
    polled.push_back({connection.socket.get(), events, 0});
    channels.push_back(channel);
  }
}

Result<bool> RelayMux::run_once(std::span<pollfd> others, std::chrono::milliseconds timeout) {
  std::vector<pollfd> polled(others.begin(), others.end());
  std::vector<std::uint32_t> channels;
  append_polled(polled, channels);
  const std::size_t trunk = others.size();
  const int ready = ::poll(polled.data(), polled.size(), static_cast<int>(timeout.count()));
  if (ready < 0 && errno != EINTR) return fail(Errc::kIo, "poll: {}", errno_text(errno));
  if (ready < 0)
    for (pollfd& one : polled) one.revents = 0;
  std::copy_n(polled.begin(), others.size(), others.begin());
  for (std::size_t i = 0; i < channels.size(); ++i) {
    const pollfd& one = polled[trunk + 2 + i];
    const auto act = [&](short events, auto method) {
      const auto found = connections_.find(channels[i]);
      if ((one.revents & events) != 0 && found != connections_.end())
        (this->*method)(channels[i], found->second);
    };
    if ((one.events & POLLOUT) != 0) act(POLLOUT | POLLERR, &RelayMux::write_socket);
    if ((one.events & POLLIN) != 0) act(POLLIN | POLLHUP | POLLERR, &RelayMux::read_socket);
    close_ended_directions(channels[i]);
  }
  if (polled[trunk].revents != 0) {
    DLRUN_TRY_ASSIGN(const bool goes_on, read_trunk());
    if (!goes_on) return false;
  }
  return write_trunk();
}

Result<bool> RelayMux::read_trunk() {
  std::array<char, kReadBytes> buffer;
  const ssize_t got = ::read(in_, buffer.data(), buffer.size());
  if (got < 0 && is_temporary(errno)) return true;
  if (got <= 0) return false;
  last_heard_ = Clock::now();
  received_.append({buffer.data(), static_cast<std::size_t>(got)});
  if (!is_greeted_) {
    DLRUN_TRY_ASSIGN(is_greeted_, received_.skip_greeting());
    if (!is_greeted_) return true;
    handler_.on_greeting();
  }
  DLRUN_TRY(handle_frames());
  return true;
}

Result<> RelayMux::handle_frames() {
  for (;;) {
    DLRUN_TRY_ASSIGN(const auto frame, received_.next());
    if (!frame) return {};
    if (frame->kind == FrameKind::kOpen) {
      DLRUN_TRY(handle_open(*frame));
    } else if (has_channel(frame->channel)) {
      DLRUN_TRY(handle_frame(*frame));
      close_ended_directions(frame->channel);
    }  // otherwise this end has reset the connection, and ignores the frame
  }
}

Result<> RelayMux::handle_open(const Frame& frame) {
  if (role_ == Role::kOpens)
    return fail(Errc::kInvalid, "the agent asked dlrun to open channel {}; only dlrun may ask",
                frame.channel);
  if (has_channel(frame.channel))
    return fail(Errc::kInvalid, "dlrun asked for channel {}, which is open already", frame.channel);
  if (!has_room()) {
    // This end may have more connections than the other end, because this end keeps a connection
    // until it has written the last bytes.
    append_frame(outgoing_, FrameKind::kReset, frame.channel,
                 fmt::format("the relay already has {} connections", kMostRelayConnections));
    return {};
  }
  connections_[frame.channel];
  handler_.on_open(frame.channel, static_cast<std::uint16_t>(frame.port_or_credit));
  return {};
}

Result<> RelayMux::handle_frame(const Frame& frame) {
  Connection& connection = connections_.at(frame.channel);
  switch (frame.kind) {
    case FrameKind::kOpen:
    case FrameKind::kAlive:
      break;
    case FrameKind::kOpened:
      handler_.on_opened(frame.channel);
      break;
    case FrameKind::kWaiting:
      handler_.on_waiting(frame.channel);
      break;
    case FrameKind::kData:
      DLRUN_TRY(connection.state.receive(frame.payload));
      if (connection.socket.is_open()) write_socket(frame.channel, connection);
      break;
    case FrameKind::kCredit:
      return connection.state.receive_credit(frame.port_or_credit);
    case FrameKind::kEnd:
      return connection.state.receive_end();
    case FrameKind::kReset:
      if (connection.socket.is_open()) close_with_reset(connection.socket);
      connections_.erase(frame.channel);
      handler_.on_reset(frame.channel, frame.payload);
      break;
  }
  return {};
}

bool RelayMux::write_trunk() {
  while (sent_ < outgoing_.size()) {
    const ssize_t written = ::write(out_, outgoing_.data() + sent_, outgoing_.size() - sent_);
    if (written < 0 && is_temporary(errno)) break;
    if (written < 0) return false;
    sent_ += static_cast<std::size_t>(written);
  }
  if (sent_ == outgoing_.size() || sent_ > kQueueLimit) {
    outgoing_.erase(0, sent_);
    sent_ = 0;
  }
  return true;
}

void RelayMux::read_socket(std::uint32_t channel, Connection& connection) {
  std::array<char, kFramePayloadLimit> buffer;
  const std::size_t most = std::min(buffer.size(), connection.state.sendable_bytes());
  if (most == 0) return;
  const ssize_t got = ::recv(connection.socket.get(), buffer.data(), most, 0);
  if (got < 0 && is_temporary(errno)) return;
  if (got < 0) {
    reset(channel, errno_text(errno));
  } else if (got == 0) {
    connection.state.record_sent_end();
    append_frame(outgoing_, FrameKind::kEnd, channel);
  } else {
    const auto bytes = static_cast<std::size_t>(got);
    connection.state.record_sent(bytes);
    append_frame(outgoing_, FrameKind::kData, channel, {buffer.data(), bytes});
  }
}

void RelayMux::write_socket(std::uint32_t channel, Connection& connection) {
  const auto bytes = connection.state.unwritten();
  if (bytes.empty()) return;
  const ssize_t written = ::send(connection.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (written < 0 && is_temporary(errno)) return;
  if (written < 0) {
    reset(channel, errno_text(errno));
    return;
  }
  if (const std::size_t credit = connection.state.record_written(static_cast<std::size_t>(written)))
    append_credit(outgoing_, channel, static_cast<std::uint32_t>(credit));
}

void RelayMux::close_ended_directions(std::uint32_t channel) {
  const auto found = connections_.find(channel);
  if (found == connections_.end() || !found->second.socket.is_open()) return;
  Connection& connection = found->second;
  if (connection.state.is_written_whole() && !connection.is_shut) {
    ::shutdown(connection.socket.get(), SHUT_WR);
    connection.is_shut = true;
  }
  if (connection.state.is_done()) connections_.erase(found);
}

}  // namespace dlrun
