#include "runtime/agent/gate.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

namespace dlrun::agent {

Gate::Gate(EventLoop& loop, GateHandler& handler, Listener listener, const Key& secret)
    : loop_(loop), handler_(handler), listener_(std::move(listener)), secret_(secret), last_tick_(Clock::now()) {
  accepting_ = loop_.watch(listener_.socket.get(), EPOLLIN, [this](std::uint32_t) { accept_peers(); });
}

Gate::~Gate() {
  if (accepting_) loop_.unwatch(*accepting_);
  for (const auto& [id, peer] : peers_) loop_.unwatch(peer->watch);
}

Gate::Peer* Gate::find(PeerId id) {
  const auto found = peers_.find(id);
  return found == peers_.end() ? nullptr : found->second.get();
}

void Gate::pause_accepting(Clock::time_point until) {
  if (accepting_) loop_.unwatch(*accepting_);
  accepting_.reset();
  accept_again_ = until;
}

void Gate::accept_peers() {
  for (;;) {
    const auto now = Clock::now();
    if (unproven_.size() >= kPlaces) {
      // Who is new waits in the kernel's queue, so that a genuine rank on a busy machine has time to answer.
      const auto oldest_leaves = find(unproven_.front())->since + kPlaceHeldFor;
      if (now < oldest_leaves) return pause_accepting(oldest_leaves);
      lose(unproven_.front(), "its place was needed");
    }
    UniqueFd socket(::accept4(listener_.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.is_open()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN) return;
      // Out of descriptors or memory: strangers make room, ranks keep theirs.
      if (!unproven_.empty()) lose(unproven_.front(), "its descriptor was needed");
      return pause_accepting(now + kPlaceHeldFor);
    }
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const PeerId id = next_++;
    auto peer = std::make_unique<Peer>();
    peer->socket = std::move(socket);
    peer->since = now;
    peer->handshake.emplace(secret_);
    peer->out = peer->handshake->greeting();
    const auto watch = loop_.watch(peer->socket.get(), EPOLLIN, [this, id](std::uint32_t events) {
      if ((events & EPOLLOUT) != 0) write_to(id);
      if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0) read_from(id);
    });
    if (!watch) continue;
    peer->watch = *watch;
    peer->place = unproven_.insert(unproven_.end(), id);
    peers_.emplace(id, std::move(peer));
    write_to(id);
  }
}

void Gate::read_from(PeerId id) {
  std::array<char, 1U << 16U> buffer;
  // Bounded, so that one peer cannot keep the loop from the others.
  for (int rounds = 0; rounds < 4; ++rounds) {
    Peer* peer = find(id);
    if (peer == nullptr) return;
    std::size_t wanted = buffer.size();
    if (peer->handshake) {
      wanted = std::min(wanted, kUnprovenLimitBytes - peer->unproven_bytes);
      if (wanted == 0) return lose(id, "it sent too much before its proof");
    }
    const ssize_t got = ::recv(peer->socket.get(), buffer.data(), wanted, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got < 0) return lose(id, errno_text(errno));
    if (got == 0) return lose(id, "the connection was closed");
    peer->silent = {};
    if (peer->is_closing) continue;  // we have nothing more to hear from it
    if (peer->handshake) peer->unproven_bytes += static_cast<std::size_t>(got);
    peer->in.append(buffer.data(), static_cast<std::size_t>(got));
    if (!take_bytes(id)) return;
  }
}

bool Gate::take_bytes(PeerId id) {
  Peer* peer = find(id);
  if (peer->handshake && !prove(id)) return false;
  for (;;) {
    peer = find(id);
    if (peer == nullptr || peer->is_closing) return false;
    if (peer->handshake) return true;  // not proven yet
    auto message = peer->channel.open(peer->in);
    if (!message) {
      lose(id, message.error().message);
      return false;
    }
    if (!*message) return true;
    handler_.on_message(id, **message);
  }
}

bool Gate::prove(PeerId id) {
  Peer* peer = find(id);
  auto proven = peer->handshake->advance(peer->in);
  if (!proven) {
    lose(id, proven.error().message);
    return false;
  }
  if (!*proven) return true;
  unproven_.erase(peer->place);
  peer->handshake.reset();
  peer->channel = (*proven)->channel;
  if (!handler_.on_peer(id, (*proven)->claim)) {
    forget(id);
    return false;
  }
  peer->out += (*proven)->answer;
  write_to(id);
  return find(id) != nullptr;
}

void Gate::send(PeerId id, std::string_view payload) {
  Peer* peer = find(id);
  if (peer == nullptr || peer->handshake || peer->is_closing) return;
  peer->out += peer->channel.seal(payload);
  if (peer->out.size() - peer->written > kHeldLimitBytes) return lose(id, "it does not take what is sent to it");
  if (!peer->waits_to_write) write_to(id);
}

void Gate::close(PeerId id) {
  Peer* peer = find(id);
  if (peer == nullptr) return;
  peer->is_closing = true;
  if (peer->written == peer->out.size()) forget(id);
}

std::string Gate::near_address_of(PeerId id) const {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return {};
  return near_address(found->second->socket.get()).value_or("");
}

void Gate::write_to(PeerId id) {
  Peer* peer = find(id);
  if (peer == nullptr) return;
  while (peer->written < peer->out.size()) {
    const ssize_t sent =
        ::send(peer->socket.get(), peer->out.data() + peer->written, peer->out.size() - peer->written, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) {
      if (!std::exchange(peer->waits_to_write, true)) loop_.change(peer->watch, EPOLLIN | EPOLLOUT);
      return;
    }
    // What it sent before it died is still to be read: the reader finds the end.
    if (sent < 0) {
      peer->written = peer->out.size();
      break;
    }
    peer->written += static_cast<std::size_t>(sent);
  }
  peer->out.clear();
  peer->written = 0;
  if (std::exchange(peer->waits_to_write, false)) loop_.change(peer->watch, EPOLLIN);
  if (peer->is_closing) forget(id);
}

void Gate::lose(PeerId id, std::string_view why) {
  Peer* peer = find(id);
  if (peer == nullptr) return;
  const bool is_stranger = peer->handshake.has_value();
  const bool tells = !is_stranger && !peer->is_closing;
  if (is_stranger) ++turned_away_;
  forget(id);
  if (tells) handler_.on_lost(id, why);
}

void Gate::forget(PeerId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  if (found->second->handshake) unproven_.erase(found->second->place);
  loop_.unwatch(found->second->watch);
  peers_.erase(found);
}

void Gate::tick(Clock::time_point now) {
  // More than two seconds between ticks: this process was stopped or starved, and heard nobody meanwhile.
  const auto awake = std::min<Clock::duration>(now - last_tick_, std::chrono::seconds(2));
  last_tick_ = now;
  while (!unproven_.empty() && find(unproven_.front())->since + kUnprovenLimit <= now) {
    lose(unproven_.front(), "it did not prove itself in time");
  }
  std::vector<PeerId> silent;
  for (const auto& [id, peer] : peers_) {
    peer->silent += awake;
    if (!peer->handshake && peer->silent > kSilenceLimit) silent.push_back(id);
  }
  for (const auto id : silent) lose(id, fmt::format("its agent has said nothing for {} s", kSilenceLimit.count()));
  if (!accepting_ && accept_again_ <= now) {
    accepting_ = loop_.watch(listener_.socket.get(), EPOLLIN, [this](std::uint32_t) { accept_peers(); });
  }
}

std::optional<Gate::Clock::time_point> Gate::next_deadline() const {
  std::optional<Clock::time_point> next;
  if (!unproven_.empty()) next = peers_.at(unproven_.front())->since + kUnprovenLimit;
  if (!accepting_ && (!next || accept_again_ < *next)) next = accept_again_;
  return next;
}

}  // namespace dlrun::agent
