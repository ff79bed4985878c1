#pragma once
// Makes writes to a pipe without a reader fail instead of ending the process.

#include <csignal>
#include <ctime>

namespace dlrun {

/// Blocks SIGPIPE in this thread while the object exists. The destructor discards a SIGPIPE that a
/// write has raised, unless a SIGPIPE was pending before. The class does not set the signal to
/// SIG_IGN, because this setting would apply to the whole process, and children would inherit it.
class BlockedSigpipe {
 public:
  BlockedSigpipe() {
    sigset_t pending;
    sigemptyset(&pending);
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    const sigset_t pipe = sigpipe();
    pthread_sigmask(SIG_BLOCK, &pipe, &before_);
  }
  ~BlockedSigpipe() {
    const sigset_t pipe = sigpipe();
    const timespec no_wait{};
    if (!was_pending_) sigtimedwait(&pipe, nullptr, &no_wait);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  BlockedSigpipe(const BlockedSigpipe&) = delete;
  BlockedSigpipe& operator=(const BlockedSigpipe&) = delete;

 private:
  static sigset_t sigpipe() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    return set;
  }
  sigset_t before_{};
  bool was_pending_ = false;
};

}  // namespace dlrun
