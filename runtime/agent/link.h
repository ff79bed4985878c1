#pragma once
// A rank's TCP connection to lead, without the event loop: connects, runs the handshake, and sends
// and receives framed messages. LinkTry and LinkPace are the parts of Link::connect() that never
// block. bench/simulated_job.cc uses them to make thousands of links in one process.

#include <chrono>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "common/files.h"
#include "common/result.h"
#include "runtime/agent/address.h"
#include "runtime/agent/event_loop.h"
#include "runtime/agent/protocol.h"

namespace dlrun::agent {

class Link;

/// One try to reach lead at one endpoint, without blocking: the TCP connection and the handshake.
class LinkTry {
 public:
  using Clock = std::chrono::steady_clock;

  /// Starts to connect. limit: time from now in which the handshake must end. source: the local
  /// address of the connection; nullopt: the kernel chooses it. Fails as begin_connect() does.
  [[nodiscard]] static Result<LinkTry> begin(const Endpoint& endpoint, const Key& secret,
                                             const RankIdentity& identity,
                                             std::chrono::milliseconds limit,
                                             const std::optional<std::string>& source = {});

  [[nodiscard]] int socket() const { return socket_.get(); }
  /// Returns true while the TCP connection is not established: the caller then waits until the
  /// socket is writable, and afterwards until it is readable.
  [[nodiscard]] bool is_connecting() const { return is_connecting_; }
  /// Returns the time at which the caller gives up the try if the socket has not become ready.
  [[nodiscard]] Clock::time_point until() const;

  /// Does what is possible without blocking. Call it when the socket is ready. Returns the link
  /// once lead has shown that it knows the secret, and nullopt while more bytes are needed. Must
  /// not be called again after it has returned a link or a failure.
  [[nodiscard]] Result<std::optional<Link>> advance();

 private:
  LinkTry(UniqueFd socket, const Key& secret, const RankIdentity& identity, Clock::time_point now,
          std::chrono::milliseconds limit);
  [[nodiscard]] Result<> check_connected() const;
  [[nodiscard]] Result<std::optional<Link>> take(std::string_view bytes);

  UniqueFd socket_;
  RankHandshake handshake_;
  Clock::time_point syn_until_;
  Clock::time_point until_;
  bool is_connecting_ = true;
  bool has_sent_answer_ = false;
  std::string in_;
};

/// The pauses between the tries of one rank, and the time limit of each try. Both grow, because
/// lead may be slow: thousands of ranks connect at the same time. A random part of each pause
/// spreads the next tries of the ranks that lead turned away.
class LinkPace {
 public:
  LinkPace();
  /// Returns the time limit of the next try.
  [[nodiscard]] std::chrono::milliseconds try_limit() const { return try_limit_; }
  /// Call it when all tries of a round have failed. Returns the pause before the next round. Each
  /// call doubles the pause that the next call returns, and try_limit(), up to their limits.
  [[nodiscard]] std::chrono::milliseconds next_pause();

 private:
  std::minstd_rand random_;
  std::chrono::milliseconds pause_;
  std::chrono::milliseconds try_limit_;
};

class Link {
 public:
  /// Tries the endpoints in order, repeatedly, until one of them proves to be lead or `limit` has
  /// passed. Calls should_stop every 200 ms. Fails with kUnavailable (the message has each
  /// endpoint's last error), or with kInterrupted if should_stop returns true.
  [[nodiscard]] static Result<Link> connect(const std::vector<Endpoint>& endpoints,
                                            const Key& secret, const RankIdentity& identity,
                                            std::chrono::milliseconds limit,
                                            const std::function<bool()>& should_stop);

  /// Queues a message and writes as much as possible without blocking. Closes the link on failure,
  /// and if more than 16 MiB are left in the queue.
  void send(std::string_view payload);
  /// Reads without blocking and calls on_message for each message. Returns false if the link is not
  /// open any more.
  [[nodiscard]] bool receive(const std::function<void(std::string_view)>& on_message);
  /// Writes queued bytes without blocking. Closes the link on failure.
  void flush();

  [[nodiscard]] int socket() const { return socket_.get(); }
  [[nodiscard]] bool is_open() const { return socket_.is_open(); }
  /// Returns true while queued bytes wait for flush().
  [[nodiscard]] bool holds_bytes() const { return !out_.empty(); }
  /// Returns why the link is closed; empty while it is open.
  [[nodiscard]] const std::string& why_closed() const { return why_closed_; }
  /// Returns the local address; empty if it is unknown.
  [[nodiscard]] std::string own_address() const {
    return local_address(socket_.get()).value_or("");
  }

 private:
  friend class LinkTry;
  Link(UniqueFd socket, Channel channel, std::string in)
      : socket_(std::move(socket)), channel_(channel), in_(std::move(in)) {}
  void close(std::string why);

  UniqueFd socket_;
  Channel channel_;
  std::string in_;
  std::string out_;
  std::string why_closed_;
};

}  // namespace dlrun::agent
