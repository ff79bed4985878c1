#pragma once
// Lead's listening socket and all connections to it. A new connection is unauthenticated until the
// handshake has shown that the peer knows the attempt's secret. After that it is a rank's
// connection. Runs in the thread of lead's event loop.

#include <array>
#include <chrono>
#include <compare>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "common/result.h"
#include "runtime/agent/address.h"
#include "runtime/agent/event_loop.h"
#include "runtime/agent/protocol.h"

namespace dlrun::agent {

using PeerId = std::uint64_t;

/// Receives the events of RankConnections. A handler may call the functions of RankConnections.
class RankConnectionsHandler {
 public:
  virtual ~RankConnectionsHandler() = default;
  /// Called when a peer has shown that it knows the secret. Returns false to refuse the identity
  /// that the peer claims; the connection is then closed.
  [[nodiscard]] virtual bool on_peer(PeerId peer, const RankIdentity& claimed) = 0;
  virtual void on_message(PeerId peer, std::string_view payload) = 0;
  /// Called after the connection of an accepted peer was lost. The connection is closed already.
  /// Never called after close().
  virtual void on_lost(PeerId peer, std::string_view why) = 0;
  /// Called once when accept() fails for lack of descriptors or memory and there is no
  /// unauthenticated connection to close. error: the errno of accept().
  virtual void on_too_few_descriptors(int /*error*/) {}
};

class RankConnections {
 public:
  using Clock = std::chrono::steady_clock;

  // Limits on unauthenticated connections, against floods. There is a fixed number of slots for
  // them. If all are taken, a new connection evicts the oldest connection of the host that has the
  // most slots. Each connection keeps its slot for at least kSlotHeldFor. Hosts of the job (this
  // host, and hosts from which a rank has joined) lose their slots last.

  /// Largest number of slots for unauthenticated connections. A process has fewer slots if half
  /// of its limit on open files is lower.
  static constexpr std::size_t kMostSlots = 4096;
  static constexpr int kAcceptsPerRound = 256;
  static constexpr std::size_t kHandshakeLimitBytes = 512;  ///< bytes from an unauthenticated peer
  static constexpr std::chrono::milliseconds kHandshakeTimeLimit{5000};
  static constexpr std::chrono::milliseconds kSlotHeldFor{50};
  /// An authenticated peer that is silent for longer than this counts as lost, even if its
  /// connection still looks alive.
  static constexpr std::chrono::seconds kSilenceLimit{30};
  /// Largest number of unsent bytes for one peer. The connection of a peer with more is closed.
  static constexpr std::size_t kUnsentLimitBytes = 64U << 20U;
  /// Bytes of memory that an empty buffer of a peer keeps for the next message. The messages with
  /// the addresses of the ranks (to_rank::TablePage) are longer; without the limit, ten thousand
  /// peers would each keep the memory of such a message.
  static constexpr std::size_t kBufferKeptBytes = 512;

  /// loop and handler must outlive this object. secrets: see LeadHandshake.
  RankConnections(EventLoop& loop, RankConnectionsHandler& handler, BoundPort listener,
                  Secrets secrets);
  ~RankConnections();
  RankConnections(const RankConnections&) = delete;
  RankConnections& operator=(const RankConnections&) = delete;

  [[nodiscard]] std::uint16_t port() const { return listener_.port; }
  /// Replaces the secret of a component. Peers that are not authenticated yet must know the new
  /// one.
  void set_secret(const std::string& component, const Key& secret) { secrets_[component] = secret; }
  /// Sends a message, and queues the bytes that the socket does not take now. Does nothing if the
  /// peer is gone or closing. If more than kUnsentLimitBytes are queued, closes the connection and
  /// reports it as lost.
  void send(PeerId peer, std::string_view payload);
  /// Closes the connection after all queued messages are written.
  void close(PeerId peer);

  /// Closes connections that exceeded a time limit, and accepts connections again after a pause.
  /// Call it at next_deadline(), and at least once a second.
  void tick(Clock::time_point now);
  [[nodiscard]] std::optional<Clock::time_point> next_deadline() const;

  /// Returns the memory that the buffers of all peers take, used or not.
  [[nodiscard]] std::size_t buffer_bytes() const;

 private:
  /// The origin of a connection: the first 64 bits of an IPv6 address, or a mapped IPv4 address.
  using Host = std::array<unsigned char, 16>;

  struct Peer {
    UniqueFd socket;
    EventLoop::Watch watch = 0;
    Clock::time_point since;  ///< when the connection was accepted
    /// Time without a byte from the peer. Does not count time in which this process was suspended.
    Clock::duration silent_time{};
    std::string in;                 ///< received bytes that are not handled yet
    std::string out;                ///< messages to send; may begin with bytes that are sent
    std::size_t written_bytes = 0;  ///< bytes at the beginning of `out` that are sent
    std::optional<LeadHandshake> handshake;  ///< set until the peer is authenticated
    std::size_t handshake_bytes = 0;         ///< bytes received while `handshake` is set
    Channel channel;
    bool is_closing = false;
    bool waits_to_write = false;
    // Valid while the peer is unauthenticated:
    Host host{};
    std::list<PeerId>::iterator slot;          ///< in unauthenticated_
    std::list<PeerId>::iterator slot_of_host;  ///< in unauthenticated_by_host_
  };
  /// The number of slots that a host has. Hosts outside the job sort last and are evicted first.
  struct HostSlots {
    bool is_outside_job = false;
    std::size_t slot_count = 0;
    Host host{};
    auto operator<=>(const HostSlots&) const = default;
  };

  void accept_peers();
  /// Sends the greeting, and gives the new connection a slot. Drops a connection that is closed
  /// already.
  void add_peer(UniqueFd socket, const Host& host, Clock::time_point now);
  /// Returns the unauthenticated connection to evict when a slot is needed.
  [[nodiscard]] PeerId next_to_evict() const;
  void take_slot(PeerId id, Peer& peer);
  void free_slot(const Peer& peer);
  /// Updates slots_by_host_. before, after: the number of slots that the host had, and has now.
  void set_slots_of_host(const Host& host, std::size_t before, std::size_t after);
  void pause_accepting(Clock::time_point until);
  void read_from(PeerId id);
  /// Handles the bytes received from the peer. Returns false if the peer is gone or is closing.
  bool take_bytes(PeerId id);
  /// Continues the handshake with the bytes received so far. Returns false if the peer is gone.
  bool continue_handshake(PeerId id);
  void write_to(PeerId id);
  /// Closes a connection that has broken or must not stay. If it belongs to an accepted peer, calls
  /// on_lost() of the handler.
  void close_as_lost(PeerId id, std::string_view why);
  /// Closes a connection without a report.
  void close_now(PeerId id);
  [[nodiscard]] Peer* find(PeerId id);

  EventLoop& loop_;
  RankConnectionsHandler& handler_;
  BoundPort listener_;
  Secrets secrets_;
  std::optional<EventLoop::Watch> accept_watch_;  ///< nullopt while accepting pauses
  Clock::time_point accept_again_{};
  Clock::time_point last_tick_;  ///< the last tick that looked for silent peers
  std::unordered_map<PeerId, std::unique_ptr<Peer>> peers_;
  std::size_t slot_limit_ = kMostSlots;  ///< number of slots in this process
  std::list<PeerId> unauthenticated_;    ///< unauthenticated peers, oldest first
  std::map<Host, std::list<PeerId>>
      unauthenticated_by_host_;        ///< unauthenticated peers by host, oldest first
  std::set<HostSlots> slots_by_host_;  ///< the sizes of the lists in unauthenticated_by_host_
  std::set<Host> job_hosts_;
  bool has_reported_shortage_ = false;  ///< on_too_few_descriptors() was called
  PeerId next_id_ = 1;
};

}  // namespace dlrun::agent
