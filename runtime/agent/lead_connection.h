#pragma once
// A rank's way to its lead: found at the addresses in the environment, proven by the secret, served
// by the event loop.

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "common/env.h"
#include "common/result.h"
#include "runtime/agent/event_loop.h"
#include "runtime/agent/link.h"

namespace dlrun::agent {

class LeadConnection {
 public:
  using Json = nlohmann::ordered_json;

  /// loop outlives the connection. on_message and on_closed are called from it, and on_closed from
  /// send(), too.
  LeadConnection(EventLoop& loop, std::function<void(std::string_view)> on_message,
                 std::function<void()> on_closed)
      : loop_(loop), on_message_(std::move(on_message)), on_closed_(std::move(on_closed)) {}

  /// Waits for lead, a minute at most; should_stop is asked meanwhile. Fails as Link::connect does,
  /// and with kInvalid where the environment names no lead.
  [[nodiscard]] Result<> connect(const Env& env, int rank,
                                 const std::function<bool()>& should_stop);
  void send(const Json& message);
  /// Handles what is there, without waiting.
  void receive();

  /// connect() has succeeded once.
  [[nodiscard]] bool is_made() const { return link_.has_value(); }
  [[nodiscard]] bool is_open() const { return link_ && link_->is_open(); }
  /// This end's address. Only of a connection that is made, as the next.
  [[nodiscard]] std::string address() const { return link_->address(); }
  [[nodiscard]] const std::string& why_closed() const { return link_->why_closed(); }

 private:
  void on_ready(std::uint32_t events);
  void close();

  EventLoop& loop_;
  std::function<void(std::string_view)> on_message_;
  std::function<void()> on_closed_;
  std::optional<Link> link_;
  std::optional<EventLoop::Watch> watch_;
  bool waits_to_send_ = false;
};

}  // namespace dlrun::agent
