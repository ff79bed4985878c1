#pragma once
// The program's connection to the store (ENVIRONMENT.md, "The store"): reads requests, one JSON
// object per line, from the program's socket, passes them on to lead, and writes lead's replies.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "common/files.h"
#include "common/result.h"
#include "runtime/agent/event_loop.h"
#include "runtime/agent/messages.h"

namespace dlrun::agent {

class StoreRelay {
 public:
  /// to_lead gets the messages for lead: Put, Get and Progress. The loop must outlive the relay.
  /// Fails with kIo.
  [[nodiscard]] static Result<std::unique_ptr<StoreRelay>> create(
      EventLoop& loop, std::function<void(const MessageToLead&)> to_lead);
  ~StoreRelay();
  StoreRelay(const StoreRelay&) = delete;
  StoreRelay& operator=(const StoreRelay&) = delete;

  /// Returns the program's end of the socket, which the program inherits.
  [[nodiscard]] int program_socket() const { return theirs_.get(); }
  /// Closes this process's copy of the program's end. Call it once the program has started.
  void release_program_socket() { theirs_.reset(); }

  /// Handles the requests that the program wrote before it ended: at most about 1 MiB, and only up
  /// to the first request that waits for lead's reply.
  void drain();
  void on_reply(const to_rank::Reply& message);

 private:
  StoreRelay(EventLoop& loop, std::function<void(const MessageToLead&)> to_lead, UniqueFd ours,
             UniqueFd theirs);
  void on_ready(std::uint32_t events);
  /// Handles requests in order. A request that waits for lead's reply blocks the next one.
  void serve();
  void handle(std::string_view line);
  void reply(const nlohmann::ordered_json& object);
  void flush();
  void close();
  void update_watch();

  EventLoop& loop_;
  std::function<void(const MessageToLead&)> to_lead_;
  UniqueFd ours_;
  UniqueFd theirs_;
  std::optional<EventLoop::Watch> watch_;
  std::string in_;
  std::string out_;
  std::uint64_t next_id_ = 1;
  std::optional<std::uint64_t> awaited_;  ///< id of the request that lead has not answered yet
};

}  // namespace dlrun::agent
