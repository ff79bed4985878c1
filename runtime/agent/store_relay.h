#pragma once
// The store on the program's descriptor (ENVIRONMENT.md, "The store"): one JSON object a line,
// passed on to lead.

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

namespace dlrun::agent {

class StoreRelay {
 public:
  /// to_lead takes a message for lead. The loop outlives the relay.
  [[nodiscard]] static Result<std::unique_ptr<StoreRelay>> create(
      EventLoop& loop, std::function<void(const nlohmann::ordered_json&)> to_lead);
  ~StoreRelay();
  StoreRelay(const StoreRelay&) = delete;
  StoreRelay& operator=(const StoreRelay&) = delete;

  /// The program's end, to be inherited; closed here by release_program_end() once the program has
  /// it.
  [[nodiscard]] int program_end() const { return theirs_.get(); }
  void release_program_end() { theirs_.reset(); }

  /// Takes what the program has written before it ended.
  void drain();
  /// Lead's `reply`.
  void on_reply(const nlohmann::ordered_json& message);

 private:
  StoreRelay(EventLoop& loop, std::function<void(const nlohmann::ordered_json&)> to_lead,
             UniqueFd ours, UniqueFd theirs);
  void on_ready(std::uint32_t events);
  /// Takes requests in their order; one that waits for lead's reply holds back the next.
  void serve();
  void handle(std::string_view line);
  void reply(const nlohmann::ordered_json& object);
  void flush();
  void close();
  void update_watch();

  EventLoop& loop_;
  std::function<void(const nlohmann::ordered_json&)> to_lead_;
  UniqueFd ours_;
  UniqueFd theirs_;
  std::optional<EventLoop::Watch> watch_;
  std::string in_;
  std::string out_;
  std::uint64_t next_id_ = 1;
  std::optional<std::uint64_t> awaited_;  ///< the request that lead has not answered yet
};

}  // namespace dlrun::agent
