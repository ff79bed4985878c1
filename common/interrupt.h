#pragma once
// Records SIGINT (Ctrl-C), SIGTERM and SIGHUP while an Interrupt exists. These signals then do not
// end dlrun.

#include <signal.h>

#include <array>
#include <chrono>

namespace dlrun {

/// Owns the handlers of these signals; the destructor restores the old handlers. An Interrupt that
/// is made while another Interrupt exists knows the signals that the other has recorded. Any other
/// new Interrupt forgets earlier signals. Use Interrupts in only one thread.
class Interrupt {
 public:
  Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  ~Interrupt();

  /// Returns true if one of the signals has arrived.
  [[nodiscard]] bool requested() const;
  /// Returns the first of these signals that arrived; 0 if none did.
  [[nodiscard]] int signal() const;
  /// Sleeps for `duration`, or until one of the signals arrives.
  void sleep(std::chrono::milliseconds duration) const;

 private:
  std::array<struct sigaction, 3> before_{};
};

}  // namespace dlrun
