// Accepts connections, limits the unauthenticated ones, and frames the messages of the
// authenticated ones.
#include "runtime/agent/rank_connections.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

namespace dlrun::agent {
namespace {

// Leading bytes of an IPv6 address that identify a host. One host may own a whole /64 network.
constexpr std::size_t kNetworkBytes = 8;
/// Interval between two looks for silent peers.
constexpr std::chrono::milliseconds kLookAtSilence{1000};
/// At most this much of the time between two looks counts as silence; see tick().
constexpr std::chrono::milliseconds kLongestCounted{2000};
static_assert(kLookAtSilence * 2 <= kLongestCounted);

/// Empties a buffer. Frees its memory if it has grown for a large message.
void empty_buffer(std::string& buffer) {
  if (buffer.capacity() > RankConnections::kBufferKeptBytes) {
    // An assignment of an empty string would keep the memory.
    std::string().swap(buffer);
  } else {
    buffer.clear();
  }
}

/// Returns the host of an address; all zeros if the address is neither IPv4 nor IPv6.
std::array<unsigned char, 16> host_of(const sockaddr_storage& address) {
  std::array<unsigned char, 16> host{};
  if (address.ss_family == AF_INET) {
    host[10] = host[11] = 0xff;
    std::memcpy(host.data() + 12, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
  } else if (address.ss_family == AF_INET6) {
    const auto& ip = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    const bool is_whole = IN6_IS_ADDR_V4MAPPED(&ip) || IN6_IS_ADDR_LOOPBACK(&ip);
    std::memcpy(host.data(), &ip, is_whole ? host.size() : kNetworkBytes);
  }
  return host;
}

std::array<unsigned char, 16> host_of(const std::string& ip) {
  sockaddr_storage address{};
  address.ss_family = ip.find(':') == std::string::npos ? AF_INET : AF_INET6;
  void* into = address.ss_family == AF_INET
                   ? static_cast<void*>(&reinterpret_cast<sockaddr_in&>(address).sin_addr)
                   : static_cast<void*>(&reinterpret_cast<sockaddr_in6&>(address).sin6_addr);
  ::inet_pton(address.ss_family, ip.c_str(), into);
  return host_of(address);
}

/// Returns the number of slots for unauthenticated connections: half of the open files that this
/// process may have, so that the other half is left for ranks.
std::size_t slot_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return RankConnections::kMostSlots;
  return std::clamp<std::size_t>(limit.rlim_cur / 2, 1, RankConnections::kMostSlots);
}

}  // namespace

RankConnections::RankConnections(EventLoop& loop, RankConnectionsHandler& handler,
                                 BoundPort listener, Secrets secrets)
    : loop_(loop),
      handler_(handler),
      listener_(std::move(listener)),
      secrets_(std::move(secrets)),
      last_tick_(Clock::now()),
      slot_limit_(slot_limit()) {
  const int on = 1;  // accepted connections inherit the option
  ::setsockopt(listener_.socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  job_hosts_ = {host_of("127.0.0.1"), host_of("::1")};
  for (const auto& ip : own_addresses()) job_hosts_.insert(host_of(ip));
  accept_watch_ =
      loop_.watch(listener_.socket.get(), EPOLLIN, [this](std::uint32_t) { accept_peers(); });
}

RankConnections::~RankConnections() {
  if (accept_watch_) loop_.unwatch(*accept_watch_);
  for (const auto& [id, peer] : peers_) loop_.unwatch(peer->watch);
}

RankConnections::Peer* RankConnections::find(PeerId id) {
  const auto found = peers_.find(id);
  return found == peers_.end() ? nullptr : found->second.get();
}

void RankConnections::pause_accepting(Clock::time_point until) {
  if (accept_watch_) loop_.unwatch(*accept_watch_);
  accept_watch_.reset();
  accept_again_ = until;
}

void RankConnections::accept_peers() {
  // The number of accepts is limited so that a flood cannot keep the loop from serving the ranks.
  for (int accepted = 0; accepted < kAcceptsPerRound; ++accepted) {
    const auto now = Clock::now();
    if (unauthenticated_.size() >= slot_limit_) {
      // A genuine rank on a busy machine needs time to answer. Until then new connections wait in
      // the kernel's queue.
      const auto evicted = next_to_evict();
      const auto held_until = find(evicted)->since + kSlotHeldFor;
      if (now < held_until) return pause_accepting(held_until);
      close_as_lost(evicted, "its slot was needed");
    }
    sockaddr_storage from{};
    socklen_t length = sizeof from;
    UniqueFd socket(::accept4(listener_.socket.get(), reinterpret_cast<sockaddr*>(&from), &length,
                              SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.is_open()) {
      const int error = errno;
      if (error == EINTR || error == ECONNABORTED) continue;
      if (error == EAGAIN) return;
      // Out of descriptors or memory: evict unauthenticated connections, never those of ranks.
      if (unauthenticated_.empty()) {
        if (!std::exchange(has_reported_shortage_, true)) handler_.on_too_few_descriptors(error);
        return pause_accepting(now + kSlotHeldFor);
      }
      const auto held_until = find(next_to_evict())->since + kSlotHeldFor;
      if (now < held_until) return pause_accepting(held_until);
      close_as_lost(next_to_evict(), "its descriptor was needed");
      continue;
    }
    add_peer(std::move(socket), host_of(from), now);
  }
}

void RankConnections::add_peer(UniqueFd socket, const Host& host, Clock::time_point now) {
  auto peer = std::make_unique<Peer>();
  peer->handshake.emplace();
  const auto greeting = peer->handshake->greeting();
  // Connections of a flood are often closed already. Sending is the cheapest way to find that out:
  // a new connection's buffer always has room for the greeting.
  const ssize_t sent = ::send(socket.get(), greeting.data(), greeting.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(greeting.size())) return;
  const PeerId id = next_id_++;
  const auto watch = loop_.watch(socket.get(), EPOLLIN, [this, id](std::uint32_t events) {
    if ((events & EPOLLOUT) != 0) write_to(id);
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0) read_from(id);
  });
  if (!watch) return;
  peer->socket = std::move(socket);
  peer->since = now;
  peer->watch = *watch;
  peer->host = host;
  take_slot(id, *peer);
  peers_.emplace(id, std::move(peer));
}

PeerId RankConnections::next_to_evict() const {
  return unauthenticated_by_host_.at(slots_by_host_.rbegin()->host).front();
}

void RankConnections::take_slot(PeerId id, Peer& peer) {
  auto& of_host = unauthenticated_by_host_[peer.host];
  set_slots_of_host(peer.host, of_host.size(), of_host.size() + 1);
  peer.slot = unauthenticated_.insert(unauthenticated_.end(), id);
  peer.slot_of_host = of_host.insert(of_host.end(), id);
}

void RankConnections::free_slot(const Peer& peer) {
  const auto found = unauthenticated_by_host_.find(peer.host);
  set_slots_of_host(peer.host, found->second.size(), found->second.size() - 1);
  unauthenticated_.erase(peer.slot);
  found->second.erase(peer.slot_of_host);
  if (found->second.empty()) unauthenticated_by_host_.erase(found);
}

void RankConnections::set_slots_of_host(const Host& host, std::size_t before, std::size_t after) {
  const bool is_outside_job = !job_hosts_.contains(host);
  if (before > 0) slots_by_host_.erase({is_outside_job, before, host});
  if (after > 0) slots_by_host_.insert({is_outside_job, after, host});
}

void RankConnections::read_from(PeerId id) {
  std::array<char, 1U << 16U> buffer;
  // The number of reads is limited so that one peer cannot keep the loop from serving the others.
  for (int rounds = 0; rounds < 4; ++rounds) {
    Peer* peer = find(id);
    if (peer == nullptr) return;
    std::size_t wanted = buffer.size();
    if (peer->handshake) {
      wanted = std::min(wanted, kHandshakeLimitBytes - peer->handshake_bytes);
      if (wanted == 0) return close_as_lost(id, "it sent too much before the end of its handshake");
    }
    const ssize_t got = ::recv(peer->socket.get(), buffer.data(), wanted, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got < 0) return close_as_lost(id, errno_text(errno));
    if (got == 0) return close_as_lost(id, "the connection was closed");
    peer->silent_time = {};
    // If recv() returns fewer bytes than wanted, no byte is left. The function then returns without
    // another recv(), which saves a system call for each heartbeat.
    const bool is_last = static_cast<std::size_t>(got) < wanted;
    if (!peer->is_closing) {  // the bytes of a peer that is being closed are discarded
      if (peer->handshake) peer->handshake_bytes += static_cast<std::size_t>(got);
      peer->in.append(buffer.data(), static_cast<std::size_t>(got));
      if (!take_bytes(id)) return;
    }
    if (is_last) return;
  }
}

bool RankConnections::take_bytes(PeerId id) {
  Peer* peer = find(id);
  if (peer->handshake && !continue_handshake(id)) return false;
  for (;;) {
    peer = find(id);
    if (peer == nullptr || peer->is_closing) return false;
    if (peer->handshake) return true;  // needs more bytes
    auto message = peer->channel.take_payload(peer->in);
    if (!message) {
      close_as_lost(id, message.error().message);
      return false;
    }
    if (!*message) {
      if (peer->in.empty()) empty_buffer(peer->in);
      return true;
    }
    handler_.on_message(id, **message);
  }
}

bool RankConnections::continue_handshake(PeerId id) {
  Peer* peer = find(id);
  auto authenticated = peer->handshake->advance(peer->in, secrets_);
  if (!authenticated) {
    close_as_lost(id, authenticated.error().message);
    return false;
  }
  if (!*authenticated) return true;
  free_slot(*peer);
  if (!job_hosts_.contains(peer->host)) {
    const auto others = unauthenticated_by_host_.find(peer->host);
    const std::size_t slot_count =
        others == unauthenticated_by_host_.end() ? 0 : others->second.size();
    set_slots_of_host(peer->host, slot_count, 0);
    job_hosts_.insert(peer->host);
    set_slots_of_host(peer->host, 0, slot_count);
  }
  peer->handshake.reset();
  peer->channel = (*authenticated)->channel;
  if (!handler_.on_peer(id, (*authenticated)->identity)) {
    close_now(id);
    return false;
  }
  peer->out += (*authenticated)->answer;
  write_to(id);
  return find(id) != nullptr;
}

void RankConnections::send(PeerId id, std::string_view payload) {
  Peer* peer = find(id);
  if (peer == nullptr || peer->handshake || peer->is_closing) return;
  peer->out += peer->channel.make_frame(payload);
  if (peer->out.size() - peer->written_bytes > kUnsentLimitBytes)
    return close_as_lost(id, "it does not read the data sent to it");
  if (!peer->waits_to_write) write_to(id);
}

void RankConnections::close(PeerId id) {
  Peer* peer = find(id);
  if (peer == nullptr) return;
  peer->is_closing = true;
  if (peer->written_bytes == peer->out.size()) close_now(id);
}

void RankConnections::write_to(PeerId id) {
  Peer* peer = find(id);
  if (peer == nullptr) return;
  while (peer->written_bytes < peer->out.size()) {
    const ssize_t sent = ::send(peer->socket.get(), peer->out.data() + peer->written_bytes,
                                peer->out.size() - peer->written_bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) {
      if (!std::exchange(peer->waits_to_write, true)) loop_.change(peer->watch, EPOLLIN | EPOLLOUT);
      return;
    }
    // The peer is gone, but its last messages may still be unread. read_from() detects the end.
    if (sent < 0) {
      peer->written_bytes = peer->out.size();
      break;
    }
    peer->written_bytes += static_cast<std::size_t>(sent);
  }
  empty_buffer(peer->out);
  peer->written_bytes = 0;
  if (std::exchange(peer->waits_to_write, false)) loop_.change(peer->watch, EPOLLIN);
  if (peer->is_closing) close_now(id);
}

void RankConnections::close_as_lost(PeerId id, std::string_view why) {
  Peer* peer = find(id);
  if (peer == nullptr) return;
  const bool is_rank = !peer->handshake.has_value();
  const bool reports = is_rank && !peer->is_closing;
  close_now(id);
  if (reports) handler_.on_lost(id, why);
}

void RankConnections::close_now(PeerId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  if (found->second->handshake) free_slot(*found->second);
  loop_.unwatch(found->second->watch);
  peers_.erase(found);
}

void RankConnections::tick(Clock::time_point now) {
  while (!unauthenticated_.empty() &&
         find(unauthenticated_.front())->since + kHandshakeTimeLimit <= now) {
    close_as_lost(unauthenticated_.front(), "its handshake did not end in time");
  }
  if (!accept_watch_ && accept_again_ <= now) {
    accept_watch_ =
        loop_.watch(listener_.socket.get(), EPOLLIN, [this](std::uint32_t) { accept_peers(); });
  }
  if (now < last_tick_ + kLookAtSilence) return;
  // Counts at most kLongestCounted between two looks: during a longer pause this process was
  // suspended or starved, and could not hear the peers.
  const auto awake = std::min<Clock::duration>(now - last_tick_, kLongestCounted);
  last_tick_ = now;
  std::vector<PeerId> silent_peers;
  for (const auto& [id, peer] : peers_) {
    peer->silent_time += awake;
    if (!peer->handshake && peer->silent_time > kSilenceLimit) silent_peers.push_back(id);
  }
  for (const auto id : silent_peers)
    close_as_lost(id, fmt::format("its agent has sent nothing for {} s", kSilenceLimit.count()));
}

std::size_t RankConnections::buffer_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [id, peer] : peers_) bytes += peer->in.capacity() + peer->out.capacity();
  return bytes;
}

std::optional<RankConnections::Clock::time_point> RankConnections::next_deadline() const {
  std::optional<Clock::time_point> next;
  if (!unauthenticated_.empty())
    next = peers_.at(unauthenticated_.front())->since + kHandshakeTimeLimit;
  if (!accept_watch_ && (!next || accept_again_ < *next)) next = accept_again_;
  return next;
}

}  // namespace dlrun::agent
