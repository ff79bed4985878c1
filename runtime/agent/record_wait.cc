#include "runtime/agent/record_wait.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <fmt/format.h>

namespace dlrun::agent {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kLookAtRecordEvery{50};
constexpr int kSignalsNeeded = 2;  ///< number of signals that end the wait

/// Reads the pending signals from the signalfd and returns how many of them ask for the end.
int take_end_signals(int signal_fd) {
  int count = 0;
  signalfd_siginfo info{};
  while (::read(signal_fd, &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGTERM || signal == SIGINT || signal == SIGHUP) ++count;
  }
  return count;
}

}  // namespace

bool wait_for_record(const RecordWait& wait) {
  const auto began = Clock::now();
  bool is_reported = false;
  for (int end_signal_count = 0;; wait.loop.run_once(milliseconds(0))) {
    if (wait.events.drain(kLookAtRecordEvery)) return true;
    const auto waited = Clock::now() - began;
    if (waited >= wait.slow_after && !std::exchange(is_reported, true)) {
      wait.err.push(
          fmt::format("dlrun: still waiting for the disk: the run's record, {}, is not written "
                      "yet; two signals (TERM, Ctrl-C) end the wait\n",
                      wait.events.path()));
    }
    end_signal_count += take_end_signals(wait.signal_fd);
    if (waited < wait.limit && end_signal_count < kSignalsNeeded) continue;
    wait.err.push(fmt::format(
        "dlrun: {} is still not written{}: the run's record lacks its last lines\n",
        wait.events.path(),
        end_signal_count < kSignalsNeeded ? fmt::format(" after {} minutes", wait.limit.count())
                                          : ", because two signals have ended the wait"));
    return false;
  }
}

}  // namespace dlrun::agent
