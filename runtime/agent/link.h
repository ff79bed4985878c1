#pragma once
// A rank's TCP connection to lead, without the event loop: connects, runs the handshake, and sends
// and receives framed messages.

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "runtime/agent/address.h"
#include "runtime/agent/event_loop.h"
#include "runtime/agent/protocol.h"

namespace dlrun::agent {

class Link {
 public:
  /// Tries the endpoints in order, repeatedly, until one of them proves to be lead or `limit` has
  /// passed. Calls should_stop at least every 200 ms. Fails with kUnavailable (the message has each
  /// endpoint's last error) or kInterrupted.
  [[nodiscard]] static Result<Link> connect(const std::vector<Endpoint>& endpoints,
                                            const Key& secret, const Claim& claim,
                                            std::chrono::milliseconds limit,
                                            const std::function<bool()>& should_stop);

  /// Queues a message and writes as much as possible without blocking. Closes the link on failure.
  void send(std::string_view payload);
  /// Reads without blocking and calls on_message for each message. Returns false if the link is not
  /// open any more.
  [[nodiscard]] bool receive(const std::function<void(std::string_view)>& on_message);
  /// Writes queued bytes without blocking.
  void flush();

  [[nodiscard]] int socket() const { return socket_.get(); }
  [[nodiscard]] bool is_open() const { return socket_.is_open(); }
  [[nodiscard]] bool holds_bytes() const { return !out_.empty(); }
  [[nodiscard]] const std::string& why_closed() const { return why_closed_; }
  /// Returns the local address; empty if it is unknown.
  [[nodiscard]] std::string address() const { return local_address(socket_.get()).value_or(""); }

 private:
  Link(UniqueFd socket, Channel channel, std::string in)
      : socket_(std::move(socket)), channel_(channel), in_(std::move(in)) {}
  [[nodiscard]] static Result<Link> connect_once(const Endpoint& endpoint, const Key& secret,
                                                 const Claim& claim,
                                                 std::chrono::steady_clock::time_point until,
                                                 const std::function<bool()>& should_stop);
  void close(std::string why);

  UniqueFd socket_;
  Channel channel_;
  std::string in_;
  std::string out_;
  std::string why_closed_;
};

}  // namespace dlrun::agent
