#include "runtime/comm/collective_watch.h"

#include <thread>
#include <utility>

namespace dlrun {

void CollectiveWatch::abort_if_failed_or_late() {
  const std::lock_guard lock(mutex_);
  abort_if_failed_or_late_locked();
}

Result<> CollectiveWatch::check_not_aborted() {
  const std::lock_guard lock(mutex_);
  return error_if_aborted();
}

Result<> CollectiveWatch::wait_until_settled(std::chrono::milliseconds limit) {
  const auto until = Clock::now() + limit;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      abort_if_failed_or_late_locked();
      DLRUN_TRY(error_if_aborted());
      if (!is_busy_) return {};
      if (Clock::now() > until)
        abort_locked(fmt::format("collectives did not end within {} s; a rank is lost or stuck",
                                 std::chrono::duration<double>(limit).count()));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void CollectiveWatch::abandon(std::string_view reason) {
  const std::lock_guard lock(mutex_);
  abort_locked(reason);
}

Result<> CollectiveWatch::error_if_aborted() const {
  if (is_aborted_) return fail(Errc::kPeer, "{}", reason_);
  return {};
}

void CollectiveWatch::abort_if_failed_or_late_locked() {
  if (is_aborted_) return;
  // Query is_busy() before check_device(): if a collective is no longer busy, check_device()
  // includes its error.
  const bool is_busy = is_busy_ && collectives_.is_busy();
  if (auto checked = collectives_.check_device(); !checked)
    return abort_locked(checked.error().message);
  is_busy_ = is_busy;
  if (is_busy_ && Clock::now() - last_start_ > timeout_) {
    abort_locked(fmt::format("a collective did not end within {} s; a rank is lost or stuck",
                             std::chrono::duration<double>(timeout_).count()));
  }
}

void CollectiveWatch::abort_locked(std::string_view reason) {
  // Set the flag before aborting: a thread that sees a collective end because of the abort must not
  // count this end as a success.
  if (std::exchange(is_aborted_, true)) return;
  reason_ = reason;
  collectives_.abort_all();
}

}  // namespace dlrun
