#pragma once
// Whether collectives that run on a device by themselves can still be trusted.
//
// On a device a collective ends after the call that started it, and one that is cut off ends, too:
// what waits for it goes on with partial sums, and nothing fails by itself. The watch knows what
// was started, cuts off what takes too long, and from then on says so to everybody who asks.

#include <chrono>
#include <mutex>
#include <string>
#include <string_view>

#include "common/result.h"

namespace dlrun {

/// A device's half of a communicator.
class DeviceCollectives {
 public:
  virtual ~DeviceCollectives() = default;
  /// Fails with what the library or the device has found wrong since the communicator was made.
  [[nodiscard]] virtual Result<> error() = 0;
  /// True while something that was started has not ended.
  [[nodiscard]] virtual bool is_busy() = 0;
  /// Ends all that was started, with whatever data it has. Called once.
  virtual void cut_off() = 0;
};

/// Every function may be called from any thread; those of the device are called by one at a time.
class CollectiveWatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// device outlives this. timeout: of one collective, from its start.
  CollectiveWatch(DeviceCollectives& device, std::chrono::milliseconds timeout)
      : device_(device), timeout_(timeout) {}

  /// Runs function, which starts a collective, unless an earlier one has failed.
  template <typename Function>
  [[nodiscard]] Result<> start(Function&& function) {
    const std::lock_guard lock(mutex_);
    DLRUN_TRY(state());
    DLRUN_TRY(function());
    is_busy_ = true;
    started_at_ = Clock::now();
    return {};
  }

  /// Cuts the collectives off where one has failed or takes longer than timeout. To be called now
  /// and then.
  void look();

  /// Fails with kPeer, and the first reason, once the collectives were cut off. Does not look at
  /// the device.
  [[nodiscard]] Result<> healthy();

  /// Returns when all that was started has ended as it should. Fails with kPeer otherwise; what has
  /// not ended within limit, or the timeout of a collective, is cut off.
  [[nodiscard]] Result<> settled(std::chrono::milliseconds limit);

  /// Cuts the collectives off.
  void abandon(std::string_view reason);

 private:
  [[nodiscard]] Result<> state() const;
  void look_locked();
  void abort_locked(std::string_view reason);

  DeviceCollectives& device_;
  std::chrono::milliseconds timeout_;
  std::mutex mutex_;  ///< guards the device's functions, and what follows
  bool is_aborted_ = false;
  bool is_busy_ = false;  ///< something was started and not yet seen to have ended
  Clock::time_point started_at_;
  std::string reason_;
};

}  // namespace dlrun
