#include "runtime/agent/relay.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <vector>

#include "common/relay_mux.h"
#include "common/text.h"
#include "runtime/agent/program_start.h"
#include "runtime/agent/relay_dialer.h"

namespace dlrun::agent {
namespace {

using Clock = RelayDialer::Clock;
using std::chrono::milliseconds;

/// Blocks the signals that end the relay, and returns a descriptor that becomes readable when one
/// of them arrives.
UniqueFd catch_stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  return UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

/// Connects each channel to a program of this node.
class NodeSide final : public RelayHandler {
 public:
  explicit NodeSide(RelayDialer::OwnerOf owner_of)
      : owner_of_(owner_of), mux_(RelayMux::Role::kAccepts, STDIN_FILENO, STDOUT_FILENO, *this) {}

  /// Serves until the connection to `dlrun forward` ends or a signal arrives. signal_fd: from
  /// catch_stop_signals().
  Result<> serve(int signal_fd) {
    for (;;) {
      std::vector<pollfd> others{{signal_fd, POLLIN, 0}};
      for (const auto& [channel, dialing] : dialings_) others.push_back({dialing.fd(), POLLOUT, 0});
      DLRUN_TRY_ASSIGN(const bool goes_on, mux_.run_once(others, next_wait(Clock::now())));
      if (!goes_on || others.front().revents != 0) return {};
      if (Clock::now() >= mux_.last_heard() + kRelaySilence)
        return fail(Errc::kUnavailable, "`dlrun forward` has sent nothing for {} s",
                    kRelaySilence.count());
      dial(Clock::now());
    }
  }

  void on_open(std::uint32_t channel, std::uint16_t port) override {
    dialings_.emplace(channel,
                      Dialing{RelayDialer(port, addresses_to_dial(), Clock::now(), owner_of_)});
    dial(Clock::now());
  }
  void on_reset(std::uint32_t channel, std::string_view) override { dialings_.erase(channel); }
  void on_opened(std::uint32_t) override {}   // only this end sends kOpened
  void on_waiting(std::uint32_t) override {}  // only this end sends kWaiting

 private:
  struct Dialing {
    RelayDialer dialer;
    bool is_wait_sent = false;  ///< kWaiting was sent to the other end
    [[nodiscard]] int fd() const { return dialer.fd(); }
  };

  /// Returns the time until the next try, or until the silence of the other end is too long.
  [[nodiscard]] milliseconds next_wait(Clock::time_point now) const {
    auto until = std::max(now, mux_.last_heard() + kRelaySilence);
    for (const auto& [channel, dialing] : dialings_)
      until = std::min(until, std::max(now, dialing.dialer.next_deadline()));
    return std::chrono::ceil<milliseconds>(until - now);
  }

  /// Continues all connections that no program has accepted yet.
  void dial(Clock::time_point now) {
    for (auto at = dialings_.begin(); at != dialings_.end();) {
      auto& [channel, dialing] = *at;
      const auto state = dialing.dialer.advance(now);
      if (state == RelayDialer::State::kConnected) mux_.attach(channel, dialing.dialer.take());
      if (state == RelayDialer::State::kGivenUp)
        mux_.reset(channel, fmt::format("nothing has listened on port {} for {} s",
                                        dialing.dialer.port(), RelayDialer::kLimit.count()));
      if (state == RelayDialer::State::kForeign)
        mux_.reset(channel,
                   fmt::format("a program of another user (uid {}) listens on port {}; "
                               "choose another port, or give --any-user if you trust that "
                               "user",
                               dialing.dialer.other_user().value_or(0), dialing.dialer.port()));
      if (state == RelayDialer::State::kWaiting && !dialing.is_wait_sent) {
        dialing.is_wait_sent = true;
        mux_.tell_waiting(channel);
      }
      const bool is_over = state == RelayDialer::State::kConnected ||
                           state == RelayDialer::State::kGivenUp ||
                           state == RelayDialer::State::kForeign;
      at = is_over ? dialings_.erase(at) : std::next(at);
    }
  }

  RelayDialer::OwnerOf owner_of_;
  std::map<std::uint32_t, Dialing> dialings_;
  RelayMux mux_;
};

}  // namespace

void make_raw(int fd) {
  termios settings{};
  if (::tcgetattr(fd, &settings) != 0) return;
  ::cfmakeraw(&settings);
  ::tcsetattr(fd, TCSANOW, &settings);
}

Result<> run_relay(const RelayOptions& options) {
  ignore_write_signals();
  raise_file_limit();
  const UniqueFd signals = catch_stop_signals();
  if (!signals.is_open()) return fail(Errc::kIo, "signalfd: {}", errno_text(errno));
  make_raw(STDOUT_FILENO);
  return NodeSide(options.connects_to_any_user ? nullptr : owner_of_tcp_peer).serve(signals.get());
}

}  // namespace dlrun::agent
