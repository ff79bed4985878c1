#pragma once
// Detects failed or hanging collectives on a device.
//
// The call that starts a collective on a device returns before the collective ends. The watch
// therefore remembers when a collective was last started, and aborts collectives that take too
// long. An aborted collective also ends: work that waits for it continues with partial sums, and
// the library reports no error. After an abort, the watch therefore returns an error to every
// caller.

#include <chrono>
#include <mutex>
#include <string>
#include <string_view>

#include "common/result.h"

namespace dlrun {

/// The functions of a device communicator that CollectiveWatch calls.
class WatchedCollectives {
 public:
  virtual ~WatchedCollectives() = default;
  /// Fails with the first error that the library or the device reported for this communicator.
  [[nodiscard]] virtual Result<> check_device() = 0;
  /// Returns true while a started collective has not ended.
  [[nodiscard]] virtual bool is_busy() = 0;
  /// Aborts all running collectives; their buffers then hold partial results. Called at most once.
  virtual void abort_all() = 0;
};

/// Thread-safe. Calls the functions of `collectives` from one thread at a time.
class CollectiveWatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// `collectives` must outlive this object. `timeout` limits the time from the last start of a
  /// collective until all have ended.
  CollectiveWatch(WatchedCollectives& collectives, std::chrono::milliseconds timeout)
      : collectives_(collectives), timeout_(timeout) {}

  /// Runs `function`, which starts a collective, and returns its result. Fails with kPeer, without
  /// running `function`, if collectives were aborted.
  template <typename Function>
  [[nodiscard]] Result<> start_collective(Function&& function) {
    const std::lock_guard lock(mutex_);
    DLRUN_TRY(error_if_aborted());
    DLRUN_TRY(function());
    is_busy_ = true;
    last_start_ = Clock::now();
    return {};
  }

  /// Aborts the collectives if one has failed or has run longer than the timeout. Call it
  /// periodically.
  void abort_if_failed_or_late();

  /// Fails with kPeer and the first reason if the collectives were aborted. Does not query the
  /// device.
  [[nodiscard]] Result<> check_not_aborted();

  /// Waits until all started collectives have ended. Fails with kPeer if one failed, or did not end
  /// within `limit` or the timeout; the running collectives are then aborted.
  [[nodiscard]] Result<> wait_until_settled(std::chrono::milliseconds limit);

  /// Aborts the collectives. Later calls fail with kPeer and the first reason.
  void abandon(std::string_view reason);

 private:
  [[nodiscard]] Result<> error_if_aborted() const;  ///< the caller holds mutex_
  void abort_if_failed_or_late_locked();
  void abort_locked(std::string_view reason);

  WatchedCollectives& collectives_;
  std::chrono::milliseconds timeout_;
  std::mutex mutex_;  ///< guards calls of collectives_ and the members below
  bool is_aborted_ = false;
  bool is_busy_ = false;  ///< true from a start until the watch sees the collective's end
  Clock::time_point last_start_;
  std::string reason_;
};

}  // namespace dlrun
