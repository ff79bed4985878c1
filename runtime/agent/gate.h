#pragma once
// Where ranks come in: the listening socket, the strangers in front of it, and the connections of those who have proven
// that they belong to the attempt. One thread, on lead's event loop.

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "common/result.h"
#include "runtime/agent/address.h"
#include "runtime/agent/event_loop.h"
#include "runtime/agent/protocol.h"

namespace dlrun::agent {

using PeerId = std::uint64_t;

/// What the gate tells. A handler may call the gate's functions.
class GateHandler {
 public:
  virtual ~GateHandler() = default;
  /// A peer has proven that it knows the secret. False: its claim is not wanted, it is closed.
  [[nodiscard]] virtual bool on_peer(PeerId peer, const Claim& claim) = 0;
  virtual void on_message(PeerId peer, std::string_view payload) = 0;
  /// The connection of a peer that on_peer accepted is gone, and closed already. Not called after close().
  virtual void on_lost(PeerId peer, std::string_view why) = 0;
};

class Gate {
 public:
  using Clock = std::chrono::steady_clock;

  // The bounds on strangers. A flood can keep a place only as long as nobody waits behind it for kPlaceHeldFor.
  static constexpr std::size_t kPlaces = 64;
  static constexpr std::size_t kUnprovenLimitBytes = 512;
  static constexpr std::chrono::milliseconds kUnprovenLimit{5000};
  static constexpr std::chrono::milliseconds kPlaceHeldFor{50};
  // A proven peer that says nothing for so long is lost, however alive its connection looks.
  static constexpr std::chrono::seconds kSilenceLimit{30};
  static constexpr std::size_t kHeldLimitBytes = 64U << 20U;

  /// loop and handler outlive the gate.
  Gate(EventLoop& loop, GateHandler& handler, Listener listener, const Key& secret);
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  [[nodiscard]] std::uint16_t port() const { return listener_.port; }
  /// Queues a message; a peer that is gone is passed over.
  void send(PeerId peer, std::string_view payload);
  /// Closes once what was sent before is written.
  void close(PeerId peer);
  /// The near address of the peer's connection, empty when it is gone.
  [[nodiscard]] std::string near_address_of(PeerId peer) const;

  /// Ends what has taken too long. To be called at least once a second and when next_deadline() has come.
  void tick(Clock::time_point now);
  [[nodiscard]] std::optional<Clock::time_point> next_deadline() const;

  /// Strangers that were turned away, for the record.
  [[nodiscard]] std::size_t turned_away() const { return turned_away_; }

 private:
  struct Peer {
    UniqueFd socket;
    EventLoop::Watch watch = 0;
    Clock::time_point since;
    Clock::duration silent{};  ///< awake time without a byte: a suspended machine or job makes nobody silent
    std::string in;
    std::string out;
    std::size_t written = 0;                 ///< of out
    std::optional<LeadHandshake> handshake;  ///< until it is proven
    std::size_t unproven_bytes = 0;
    Channel channel;
    bool is_closing = false;
    bool waits_to_write = false;
    std::list<PeerId>::iterator place;  ///< in unproven_, while it is unproven
  };

  void accept_peers();
  void pause_accepting(Clock::time_point until);
  void read_from(PeerId id);
  /// False when the peer is gone afterwards.
  bool take_bytes(PeerId id);
  bool prove(PeerId id);
  void write_to(PeerId id);
  void lose(PeerId id, std::string_view why);
  void forget(PeerId id);
  [[nodiscard]] Peer* find(PeerId id);

  EventLoop& loop_;
  GateHandler& handler_;
  Listener listener_;
  Key secret_;
  std::optional<EventLoop::Watch> accepting_;
  Clock::time_point accept_again_{};
  Clock::time_point last_tick_;
  std::unordered_map<PeerId, std::unique_ptr<Peer>> peers_;
  std::list<PeerId> unproven_;  ///< oldest first
  PeerId next_ = 1;
  std::size_t turned_away_ = 0;
};

}  // namespace dlrun::agent
