#include "cli/terminal/stream.h"

#include <csignal>
#include <ctime>

namespace dlrun {
namespace {

/// Blocks SIGPIPE in this thread, and discards a SIGPIPE that a write has raised in the meantime.
/// Does not ignore the signal in the process, because child processes would inherit this.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before_);
  }
  ~WithoutSigpipe() {
    if (!was_pending_) {
      sigset_t pipe;
      sigemptyset(&pipe);
      sigaddset(&pipe, SIGPIPE);
      const timespec now{};
      sigtimedwait(&pipe, nullptr, &now);
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t before_{};
  bool was_pending_ = false;
};

}  // namespace

bool write_to(std::FILE* stream, std::string_view bytes) {
  const WithoutSigpipe guard;
  return std::fwrite(bytes.data(), 1, bytes.size(), stream) == bytes.size();
}

bool flush(std::FILE* stream) {
  const WithoutSigpipe guard;
  return std::fflush(stream) == 0 && std::ferror(stream) == 0;
}

}  // namespace dlrun
