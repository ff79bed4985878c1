#pragma once
// The I/O of one end of a relay: moves bytes between the sockets of many connections and one pair
// of pipes, the trunk. One thread does all I/O, with poll(2).

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/files.h"
#include "common/relay_channel.h"
#include "common/relay_frames.h"
#include "common/result.h"

namespace dlrun {

/// The largest number of connections at one time. Further clients of dlrun wait.
inline constexpr std::size_t kMostRelayConnections = 256;

/// Receives the events of one end of a relay. RelayMux::run_once() calls the functions.
class RelayHandler {
 public:
  RelayHandler() = default;
  RelayHandler(const RelayHandler&) = delete;
  RelayHandler& operator=(const RelayHandler&) = delete;
  virtual ~RelayHandler() = default;

  /// The agent's greeting has arrived. Only dlrun's end gets this event.
  virtual void on_greeting() {}
  /// A client wants a connection to the port. Only the agent's end gets this event. The handler
  /// later calls attach() or reset() of the RelayMux.
  virtual void on_open(std::uint32_t channel, std::uint16_t port) = 0;
  /// The program on the node has accepted the connection. Only dlrun's end gets this event.
  virtual void on_opened(std::uint32_t channel) = 0;
  /// No program listens on the port yet; the agent tries again. Only dlrun's end gets this event.
  virtual void on_waiting(std::uint32_t channel) = 0;
  /// The other end has reset the connection. reason: for people.
  virtual void on_reset(std::uint32_t channel, std::string_view reason) = 0;
};

/// dlrun sends a kAlive frame every kRelayBeat. The agent ends if nothing arrives for
/// kRelaySilence, because Slurm does not tell a step that its srun was killed.
inline constexpr std::chrono::seconds kRelayBeat{4};
inline constexpr std::chrono::seconds kRelaySilence{20};

/// One end of a relay. Not thread-safe.
class RelayMux {
 public:
  using Clock = std::chrono::steady_clock;

  enum class Role {
    kOpens,    ///< dlrun's end: calls open(), and waits for the agent's greeting
    kAccepts,  ///< the agent's end: sends the greeting, and gets on_open() for each connection
  };

  /// in, out: the trunk; the caller owns both descriptors. The descriptors become non-blocking.
  /// SIGPIPE must be blocked or ignored while run_once() writes to the trunk.
  RelayMux(Role role, int in, int out, RelayHandler& handler);

  /// Adds a connection, and asks the other end to connect to this port of its machine. Returns the
  /// channel of the connection. The caller first checks has_room().
  std::uint32_t open(UniqueFd socket, std::uint16_t port);
  /// Attaches the socket of the program to a channel that on_open() has announced, and tells the
  /// other end. Does nothing if the channel no longer exists.
  void attach(std::uint32_t channel, UniqueFd socket);
  /// Tells the other end that nothing listens on the port yet. Does nothing if the channel no
  /// longer exists.
  void tell_waiting(std::uint32_t channel);
  /// Closes the connection at both ends. Does nothing if the channel no longer exists. Does not
  /// call on_reset() at this end.
  void reset(std::uint32_t channel, std::string_view reason);

  /// Queues a kAlive frame.
  void tell_alive() { append_frame(outgoing_, FrameKind::kAlive, 0); }
  /// Returns the time when bytes last arrived on the trunk, or the time of construction.
  [[nodiscard]] Clock::time_point last_heard() const { return last_heard_; }

  [[nodiscard]] std::size_t connection_count() const { return connections_.size(); }
  [[nodiscard]] bool has_channel(std::uint32_t channel) const {
    return connections_.contains(channel);
  }
  /// Returns true if a new connection can be added now.
  [[nodiscard]] bool has_room() const { return connections_.size() < kMostRelayConnections; }

  /// Waits at most `timeout` for the trunk, the sockets and the descriptors in `others`, moves
  /// bytes, and fills in the revents of `others`. Returns false if the trunk has ended. Fails with
  /// kInvalid if the other end breaks the protocol, and with kIo if poll(2) fails.
  [[nodiscard]] Result<bool> run_once(std::span<pollfd> others, std::chrono::milliseconds timeout);

 private:
  struct Connection {
    UniqueFd socket;  ///< not open while the agent still waits for the program
    RelayChannel state;
    bool is_shut = false;  ///< the socket's writing side is closed
  };
  using Connections = std::map<std::uint32_t, Connection>;

  /// Appends to `polled` both descriptors of the trunk, then the sockets from which this end may
  /// read now or for which it has bytes. Appends the channels of these sockets to `channels`, in
  /// the same order.
  void append_polled(std::vector<pollfd>& polled, std::vector<std::uint32_t>& channels) const;
  [[nodiscard]] Result<bool> read_trunk();
  [[nodiscard]] Result<> handle_frames();
  [[nodiscard]] Result<> handle_open(const Frame& frame);
  [[nodiscard]] Result<> handle_frame(const Frame& frame);
  [[nodiscard]] bool write_trunk();
  void read_socket(std::uint32_t channel, Connection& connection);
  void write_socket(std::uint32_t channel, Connection& connection);
  /// Shuts the socket's writing side once all bytes of the other end are written, and removes a
  /// connection whose two directions have ended.
  void close_ended_directions(std::uint32_t channel);

  Role role_;
  int in_, out_;
  RelayHandler& handler_;
  bool is_greeted_;
  Clock::time_point last_heard_ = Clock::now();
  std::uint32_t next_channel_ = 1;
  Connections connections_;
  FrameBuffer received_;
  std::string outgoing_;
  std::size_t sent_ = 0;  ///< number of bytes of outgoing_ that the trunk has accepted
};

}  // namespace dlrun
