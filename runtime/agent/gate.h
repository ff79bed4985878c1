#pragma once
// Where ranks come in: the listening socket, the strangers in front of it, and the connections of
// those who have proven that they belong to the attempt. One thread, on lead's event loop.

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

/// What the gate tells. A handler may call the gate's functions.
class GateHandler {
 public:
  virtual ~GateHandler() = default;
  /// A peer has proven that it knows the secret. False: its claim is not wanted, it is closed.
  [[nodiscard]] virtual bool on_peer(PeerId peer, const Claim& claim) = 0;
  virtual void on_message(PeerId peer, std::string_view payload) = 0;
  /// The connection of a peer that on_peer accepted is gone, and closed already. Not called after
  /// close().
  virtual void on_lost(PeerId peer, std::string_view why) = 0;
  /// Nobody else can come in: this process has no descriptor left, and no stranger that could give
  /// one back. error is accept's. Told once.
  virtual void on_full(int /*error*/) {}
};

class Gate {
 public:
  using Clock = std::chrono::steady_clock;

  // The bounds on strangers. A flood can keep a place only as long as nobody waits behind it for
  // kPlaceHeldFor. Where all places are taken, the host that has the most loses one; hosts of the
  // job (this one, and those that a rank has come from) lose theirs last.
  static constexpr std::size_t kPlaces =
      4096;  ///< at most; half of the open files that are allowed
  static constexpr int kAcceptsPerRound = 256;
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

  /// Ends what has taken too long. To be called at least once a second and when next_deadline() has
  /// come.
  void tick(Clock::time_point now);
  [[nodiscard]] std::optional<Clock::time_point> next_deadline() const;

  /// Strangers that were turned away, for the record.
  [[nodiscard]] std::size_t turned_away() const { return turned_away_; }

 private:
  /// Where a connection comes from: an IPv6 address, of whose network the first 64 bits count, or a
  /// mapped IPv4 one.
  using Host = std::array<unsigned char, 16>;

  struct Peer {
    UniqueFd socket;
    EventLoop::Watch watch = 0;
    Clock::time_point since;
    Clock::duration
        silent{};  ///< awake time without a byte: a suspended machine or job makes nobody silent
    std::string in;
    std::string out;
    std::size_t written = 0;                 ///< of out
    std::optional<LeadHandshake> handshake;  ///< until it is proven
    std::size_t unproven_bytes = 0;
    Channel channel;
    bool is_closing = false;
    bool waits_to_write = false;
    // While it is unproven:
    Host host{};
    std::list<PeerId>::iterator place;          ///< in unproven_
    std::list<PeerId>::iterator place_of_host;  ///< in strangers_
  };
  /// How many places a host has; those of strangers' hosts come behind those of the job's.
  struct Share {
    bool is_stranger = false;
    std::size_t places = 0;
    Host host{};
    auto operator<=>(const Share&) const = default;
  };

  void accept_peers();
  void admit(UniqueFd socket, const Host& host, Clock::time_point now);
  /// Returns the unproven connection to close when a place is needed.
  [[nodiscard]] PeerId next_to_leave() const;
  void take_place(PeerId id, Peer& peer);
  void leave_place(const Peer& peer);
  void set_share(const Host& host, std::size_t before, std::size_t after);
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
  Clock::time_point last_tick_;  ///< that looked at silent peers
  std::unordered_map<PeerId, std::unique_ptr<Peer>> peers_;
  std::size_t places_ = kPlaces;
  std::list<PeerId> unproven_;                   ///< oldest first
  std::map<Host, std::list<PeerId>> strangers_;  ///< the same by host
  std::set<Share> shares_;                       ///< of strangers_
  std::set<Host> own_hosts_;                     ///< of the job
  bool is_full_told_ = false;
  PeerId next_ = 1;
  std::size_t turned_away_ = 0;
};

}  // namespace dlrun::agent
