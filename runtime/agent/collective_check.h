#pragma once
// health.preflight's nccl and gloo: before the program, every rank runs `dlrun-trainer preflight`,
// which lies beside the agent, and all of them together try a collective. One rank's part of it.

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "common/env.h"
#include "common/result.h"
#include "runtime/agent/event_loop.h"
#include "runtime/agent/store_relay.h"

namespace dlrun::agent {

class CollectiveCheck {
 public:
  using Clock = std::chrono::steady_clock;
  using Json = nlohmann::ordered_json;

  /// The check gives itself a minute; one that has not ended by then does not get its device, or
  /// its end.
  static constexpr std::chrono::seconds kLimit{75};
  static constexpr std::chrono::seconds kStoppedLimit{5};

  /// Starts it, with env and the store. to_lead takes messages: requests to the store, `checking`.
  /// What comes out of it is finish()'s. Fails as StoreRelay and start_program do. The loop
  /// outlives the check.
  [[nodiscard]] static Result<std::unique_ptr<CollectiveCheck>> start(
      EventLoop& loop, const std::string& backend, Env env,
      std::function<void(const Json&)> to_lead);

  [[nodiscard]] pid_t pid() const { return pid_; }
  void on_reply(const Json& message) { store_->on_reply(message); }
  /// Ends a check whose time is over, or that is stopped (SIGSTOP).
  void tick(Clock::time_point now);
  /// The process has ended: what lead is to know, a `checked` or a `check_failed`.
  [[nodiscard]] Json finish(int status) const;
  /// The message for a check that could not even start.
  [[nodiscard]] static Json failure(const std::string& backend, std::string_view words,
                                    bool is_own);

 private:
  CollectiveCheck(std::string backend, std::function<void(const Json&)> to_lead)
      : backend_(std::move(backend)), to_lead_(std::move(to_lead)) {}
  void on_message(const Json& message);
  void give_up(std::string words);

  std::string backend_;
  std::function<void(const Json&)> to_lead_;
  std::unique_ptr<StoreRelay> store_;
  pid_t pid_ = -1;
  Clock::time_point began_ = Clock::now();
  std::optional<Clock::time_point> stopped_since_;
  std::optional<Json> said_;  ///< its own words about a failure, or ours
};

}  // namespace dlrun::agent
