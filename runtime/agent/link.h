#pragma once
// A rank's connection to lead.

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
  /// Tries the endpoints in their order, again and again, until one of them proves to be lead, or
  /// limit has passed. should_stop is asked at least every 200 ms. Fails with kUnavailable (each
  /// endpoint's last error is named) or kInterrupted.
  [[nodiscard]] static Result<Link> connect(const std::vector<Endpoint>& endpoints,
                                            const Key& secret, const Claim& claim,
                                            std::chrono::milliseconds limit,
                                            const std::function<bool()>& should_stop);

  /// Queues a message and writes what goes. After a failure the link is closed.
  void send(std::string_view payload);
  /// What has arrived: calls back for each message; false when the link is closed, then or before.
  [[nodiscard]] bool receive(const std::function<void(std::string_view)>& on_message);
  /// Writes what is held.
  void flush();

  [[nodiscard]] int socket() const { return socket_.get(); }
  [[nodiscard]] bool is_open() const { return socket_.is_open(); }
  [[nodiscard]] bool holds_bytes() const { return !out_.empty(); }
  [[nodiscard]] const std::string& why_closed() const { return why_closed_; }
  /// This end's address.
  [[nodiscard]] std::string address() const { return near_address(socket_.get()).value_or(""); }

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
