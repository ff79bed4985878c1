#pragma once
// A rank's connection to lead on the event loop. The environment contains lead's addresses and the
// secret with which both sides authenticate each other.

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/env.h"
#include "common/result.h"
#include "runtime/agent/event_loop.h"
#include "runtime/agent/link.h"
#include "runtime/agent/messages.h"

namespace dlrun::agent {

class LeadConnection {
 public:
  /// loop must outlive the connection. The loop and receive() call on_message and on_closed; send()
  /// may call on_closed.
  LeadConnection(EventLoop& loop, std::function<void(std::string_view)> on_message,
                 std::function<void()> on_closed)
      : loop_(loop), on_message_(std::move(on_message)), on_closed_(std::move(on_closed)) {}

  /// Connects to lead. Waits at most one minute and calls should_stop meanwhile. Fails as
  /// Link::connect() does, and with kInvalid if DLRUN_LEAD or DLRUN_SECRET is missing or invalid.
  [[nodiscard]] Result<> connect(const Env& env, int rank,
                                 const std::function<bool()>& should_stop);
  /// Sends a message, and queues the bytes that the socket does not take now. Does nothing if the
  /// connection is not open.
  void send(const MessageToLead& message);
  /// Handles the messages that have arrived, without waiting.
  void receive();

  /// Returns true if connect() has succeeded, even if the connection has been closed since.
  [[nodiscard]] bool has_connected() const { return link_.has_value(); }
  [[nodiscard]] bool is_open() const { return link_ && link_->is_open(); }
  /// Returns this rank's address. Like why_closed(), call it only if has_connected().
  [[nodiscard]] std::string own_address() const { return link_->own_address(); }
  [[nodiscard]] const std::string& why_closed() const { return link_->why_closed(); }

 private:
  void on_ready(std::uint32_t events);
  /// Handles the end of the link: takes it from the loop and calls on_closed.
  void on_link_closed();

  EventLoop& loop_;
  std::function<void(std::string_view)> on_message_;
  std::function<void()> on_closed_;
  std::optional<Link> link_;
  std::optional<EventLoop::Watch> watch_;
  bool waits_to_send_ = false;
};

}  // namespace dlrun::agent
