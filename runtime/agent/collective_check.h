#pragma once
// One rank's part in the check of collectives (health.preflight: nccl, rccl or gloo). Before the
// program starts, every rank runs `dlrun-trainer preflight`, which is installed beside the agent.
// Together these processes try a collective.

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/env.h"
#include "common/result.h"
#include "runtime/agent/event_loop.h"
#include "runtime/agent/messages.h"
#include "runtime/agent/node_check.h"
#include "runtime/agent/store_relay.h"

namespace dlrun::agent {

class CollectiveCheck {
 public:
  using Clock = std::chrono::steady_clock;

  /// The limit that the check gets (--timeout) for each of its waits: each wait for other ranks,
  /// and each collective.
  static constexpr std::chrono::seconds kEachWaitLimit{60};
  /// Time for the start and the end of a process, and for the check's work between its waits.
  static constexpr std::chrono::seconds kSpare{15};
  static constexpr std::chrono::seconds kSuspendedLimit{5};  ///< see tick()

  /// Starts the process that tests the backend `checks.collective`. The process gets env and a
  /// connection to lead's store. send_to_lead() gets the process's requests to the store, and the
  /// message DeviceOpenedByCheck. Fails as StoreRelay::create() and start_program() do. The loop
  /// must outlive the check.
  [[nodiscard]] static Result<std::unique_ptr<CollectiveCheck>> start(
      EventLoop& loop, const NodeChecks& checks, Env env,
      std::function<void(const MessageToLead&)> send_to_lead);

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Returns the time from the start of the check in which it must report that its device is open.
  /// Otherwise the check is killed.
  [[nodiscard]] static std::chrono::seconds time_to_open_device() {
    return kEachWaitLimit + kSpare;
  }
  /// Returns the time from that report in which the check must end. Otherwise the check is killed.
  /// The time exceeds the sum of the check's own limits, so that the check itself can report a
  /// collective that hangs. A check that still runs after this time most likely hangs while it
  /// ends.
  [[nodiscard]] static std::chrono::seconds time_after_opening_device(const NodeChecks& checks);
  void on_reply(const to_rank::Reply& message) { store_->on_reply(message); }
  /// Kills the check after the limits above, or if it has been suspended (SIGSTOP) for
  /// kSuspendedLimit.
  void tick(Clock::time_point now);
  /// Returns the failure after the process has ended; nullopt if the check has passed. status: from
  /// waitpid().
  [[nodiscard]] std::optional<to_lead::CheckFailed> result(int status) const;
  /// Returns the message about a failed check, or about a check that could not start. words: the
  /// reason, with or without the name of the backend before it. is_own: see to_lead::CheckFailed.
  [[nodiscard]] static to_lead::CheckFailed failure(const std::string& backend,
                                                    std::string_view words, bool is_own);

 private:
  CollectiveCheck(const NodeChecks& checks, std::function<void(const MessageToLead&)> send_to_lead)
      : backend_(checks.collective),
        time_after_opening_device_(time_after_opening_device(checks)),
        send_to_lead_(std::move(send_to_lead)) {}
  void on_message(const MessageToLead& message);
  void give_up(std::string words);

  std::string backend_;
  std::chrono::seconds time_after_opening_device_;
  std::function<void(const MessageToLead&)> send_to_lead_;
  std::unique_ptr<StoreRelay> store_;
  pid_t pid_ = -1;
  Clock::time_point began_ = Clock::now();
  std::optional<Clock::time_point> device_opened_at_;
  std::optional<Clock::time_point> suspended_since_;
  /// The failure that the check, or this class, reported first.
  std::optional<to_lead::CheckFailed> failure_;
};

}  // namespace dlrun::agent
