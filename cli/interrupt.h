#pragma once
// Ctrl-C as a value. While one of these lives, SIGINT, SIGTERM and SIGHUP are noted instead of
// ending dlrun.

#include <signal.h>

#include <array>
#include <chrono>

namespace dlrun {

class Interrupt {
 public:
  Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  ~Interrupt();

  [[nodiscard]] bool requested() const;
  /// The first of them; 0 where none came.
  [[nodiscard]] int signal() const;
  /// Returns early when a signal comes.
  void sleep(std::chrono::milliseconds duration) const;

 private:
  std::array<struct sigaction, 3> before_{};
};

}  // namespace dlrun
