#include "common/interrupt.h"

#include <sys/select.h>

#include <ctime>

namespace dlrun {
namespace {

constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
// The first signal that arrived; 0: none. Global, because a signal handler can access only global
// variables.
volatile sig_atomic_t g_first_signal = 0;
/// The number of Interrupts that exist. An inner Interrupt must not forget a signal that the outer
/// Interrupt has not seen yet.
int g_interrupt_object_count = 0;

extern "C" void record_signal(int signal) {
  if (g_first_signal == 0) g_first_signal = signal;
}

}  // namespace

Interrupt::Interrupt() {
  if (g_interrupt_object_count++ == 0) g_first_signal = 0;
  struct sigaction action {};
  action.sa_handler = record_signal;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &before_[i]);
}

Interrupt::~Interrupt() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
  --g_interrupt_object_count;
}

bool Interrupt::requested() const {
  return g_first_signal != 0;
}

int Interrupt::signal() const {
  return static_cast<int>(g_first_signal);
}

void Interrupt::sleep(std::chrono::milliseconds duration) const {
  sigset_t block;
  sigset_t before;
  sigemptyset(&block);
  for (const int signal : kSignals) sigaddset(&block, signal);
  // The signals are blocked between the check and pselect(), which unblocks them atomically. A
  // signal in between therefore ends the sleep.
  ::pthread_sigmask(SIG_BLOCK, &block, &before);
  if (g_first_signal == 0) {
    const timespec time{duration.count() / 1000, (duration.count() % 1000) * 1'000'000};
    sigset_t asleep = before;  // the mask during pselect()
    for (const int signal : kSignals) sigdelset(&asleep, signal);
    ::pselect(0, nullptr, nullptr, nullptr, &time, &asleep);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace dlrun
