#include "launcher/forward/forwarding.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "common/blocked_sigpipe.h"
#include "common/relay_mux.h"
#include "common/text.h"
#include "launcher/executors/scrub.h"
#include "launcher/forward/piped_process.h"

namespace dlrun {
namespace {

constexpr std::size_t kKeptBytesOfMessages = 4096;
constexpr std::chrono::milliseconds kPauseAfterShortage{500};

/// Blocks the signals that end the forwarding, and makes them readable from fd(), while this object
/// exists.
class EndSignals {
 public:
  EndSignals() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
    ::pthread_sigmask(SIG_BLOCK, &signals, &before_);
    fd_.reset(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;
  ~EndSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  [[nodiscard]] int fd() const { return fd_.get(); }
  /// Returns a signal that has arrived; 0 for none.
  [[nodiscard]] int take() const {
    signalfd_siginfo info{};
    const ssize_t got = ::read(fd_.get(), &info, sizeof info);
    return got == static_cast<ssize_t>(sizeof info) ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  sigset_t before_{};
  UniqueFd fd_;
};

/// Returns true for an error of accept() that disappears when a descriptor or memory is free again.
bool is_shortage(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

/// Reads once from the pipe. Calls on_message for each complete line, and keeps the last
/// kKeptBytesOfMessages bytes in `messages`. Returns false at the end of the pipe.
bool pass_lines(int pipe, std::string& messages,
                const std::function<void(std::string_view)>& on_message) {
  std::array<char, kKeptBytesOfMessages> buffer;
  const ssize_t got = ::read(pipe, buffer.data(), buffer.size());
  if (got <= 0) return got < 0 && errno == EINTR;
  const std::size_t line_start =
      messages.rfind('\n') == std::string::npos ? 0 : messages.rfind('\n') + 1;
  messages.append(buffer.data(), static_cast<std::size_t>(got));
  for (std::size_t at = line_start, end = 0; (end = messages.find('\n', at)) != std::string::npos;
       at = end + 1)
    on_message(trim(std::string_view(messages).substr(at, end - at)));
  if (messages.size() > kKeptBytesOfMessages)
    messages.erase(0, messages.size() - kKeptBytesOfMessages);
  return true;
}

/// Accepts clients on this machine and carries their connections to the relay.
class ClientSide final : public RelayHandler {
 public:
  ClientSide(PipedProcess& relay, const std::vector<LocalListener>& listeners,
             ForwardEvents& events)
      : relay_(relay),
        listeners_(listeners),
        events_(events),
        mux_(RelayMux::Role::kOpens, relay.out(), relay.in(), *this) {}

  /// Serves clients until a signal arrives or the relay ends. The caller ends the relay's process.
  Result<> serve(const EndSignals& signals, ForwardingOutcome& result) {
    bool is_stderr_open = true;  // of the relay
    for (;;) {
      std::vector<pollfd> others{{signals.fd(), POLLIN, 0},
                                 {is_stderr_open ? relay_.err() : -1, POLLIN, 0}};
      const bool is_paused = RelayMux::Clock::now() < paused_until_;
      const bool accepts = is_ready_ && mux_.has_room() && !is_paused;
      for (const auto& listener : listeners_)
        others.push_back({accepts ? listener.socket.get() : -1, POLLIN, 0});
      if (const auto now = RelayMux::Clock::now(); is_ready_ && now >= next_beat_) {
        mux_.tell_alive();
        next_beat_ = now + kRelayBeat;
      }
      auto goes_on = mux_.run_once(others, is_paused ? kPauseAfterShortage : kRelayBeat);
      result.was_ready = is_ready_;
      if (others[1].revents != 0) is_stderr_open = read_messages(result.messages);
      if (!goes_on) return tl::unexpected(goes_on.error());
      if (others[0].revents != 0) result.signal = signals.take();
      if (!*goes_on || result.signal != 0) return {};
      for (std::size_t i = 0; i < listeners_.size(); ++i)
        if (others[2 + i].revents != 0) DLRUN_TRY(accept_from(listeners_[i]));
    }
  }

  void on_greeting() override {
    is_ready_ = true;
    events_.on_ready();
  }
  void on_open(std::uint32_t, std::uint16_t) override {}  // only this end sends kOpen frames
  void on_opened(std::uint32_t channel) override {
    const std::uint16_t port = unanswered_ports_[channel];
    if (waiting_ports_.erase(port) > 0) events_.on_answered(port);
    unanswered_ports_.erase(channel);
  }
  void on_waiting(std::uint32_t channel) override {
    const std::uint16_t port = unanswered_ports_[channel];
    if (waiting_ports_.insert(port).second) events_.on_waiting(port);
  }
  void on_reset(std::uint32_t channel, std::string_view reason) override {
    const auto found = unanswered_ports_.find(channel);
    if (found == unanswered_ports_.end())
      return;  // the program had accepted the connection and then reset it
    events_.on_given_up(found->second, reason);
    waiting_ports_.erase(found->second);
    unanswered_ports_.erase(found);
  }

 private:
  /// Accepts waiting clients until none is left, the relay has no room for more, or a descriptor or
  /// memory is missing.
  Result<> accept_from(const LocalListener& listener) {
    while (mux_.has_room()) {
      UniqueFd client(::accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
      const int error = errno;
      if (!client.is_open() && (error == EINTR || error == ECONNABORTED)) continue;
      if (!client.is_open() && (error == EAGAIN || error == EWOULDBLOCK)) break;
      if (!client.is_open() && is_shortage(error)) {
        // The client stays in the kernel's queue, and the connections that are open continue.
        paused_until_ = RelayMux::Clock::now() + kPauseAfterShortage;
        if (!std::exchange(has_told_shortage_, true)) events_.on_shortage(error);
        break;
      }
      if (!client.is_open())
        return fail(Errc::kIo, "a client cannot be accepted: {}", errno_text(error));
      const int on = 1;
      // Has no effect on a unix socket, which does not need the option.
      ::setsockopt(client.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      unanswered_ports_[mux_.open(std::move(client), listener.node_port)] = listener.node_port;
    }
    // Forgets the channels of clients that have left before a program accepted them.
    std::erase_if(unanswered_ports_,
                  [this](const auto& one) { return !mux_.has_channel(one.first); });
    return {};
  }

  /// Reads standard error of the relay's command, and keeps the end of the text in `messages`.
  /// Reports complete lines while the relay has not started. Returns false at the end of standard
  /// error.
  bool read_messages(std::string& messages) {
    return pass_lines(relay_.err(), messages, [this](std::string_view line) {
      if (!is_ready_) events_.on_slurm_message(line);
    });
  }

  PipedProcess& relay_;
  const std::vector<LocalListener>& listeners_;
  ForwardEvents& events_;
  /// The ports of the channels that no program has accepted.
  std::map<std::uint32_t, std::uint16_t> unanswered_ports_;
  std::set<std::uint16_t> waiting_ports_;  ///< the ports that on_waiting() has reported
  bool is_ready_ = false;
  bool has_told_shortage_ = false;  ///< on_shortage() was called
  RelayMux::Clock::time_point next_beat_{}, paused_until_{};
  RelayMux mux_;
};

}  // namespace

Result<ForwardingOutcome> forward_ports(const std::vector<std::string>& argv, const Env& env,
                                        const std::vector<LocalListener>& listeners,
                                        ForwardEvents& events) {
  const EndSignals signals;
  if (signals.fd() < 0) return fail(Errc::kIo, "signalfd: {}", errno_text(errno));
  const BlockedSigpipe blocked;  // the relay may end while this process writes to it
  ForwardingOutcome result;
  DLRUN_TRY_ASSIGN(
      auto relay,
      PipedProcess::start(argv, scrubbed_for_slurm(env, munge_is_available()), Streams::kPiped));
  const auto served = ClientSide(relay, listeners, events).serve(signals, result);
  // A step that has not started does not notice the end of its input, and a program that is no
  // relay need not read its input. end() then sends SIGTERM immediately.
  const bool must_terminate = !served || (!result.was_ready && result.signal != 0);
  result.exit_code = relay.end(must_terminate, result.messages);
  if (!served) return tl::unexpected(served.error());
  return result;
}

Result<ForwardingOutcome> run_with_inherited_input_and_output(
    const std::vector<std::string>& argv, const Env& env,
    const std::function<void(std::string_view)>& on_message) {
  const EndSignals signals;
  if (signals.fd() < 0) return fail(Errc::kIo, "signalfd: {}", errno_text(errno));
  ForwardingOutcome result;
  DLRUN_TRY_ASSIGN(auto child,
                   PipedProcess::start(argv, scrubbed_for_slurm(env, munge_is_available()),
                                       Streams::kInherited));
  while (result.signal == 0) {
    std::array<pollfd, 2> waits{pollfd{signals.fd(), POLLIN, 0}, pollfd{child.err(), POLLIN, 0}};
    if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) break;
    if (waits[0].revents != 0) result.signal = signals.take();
    if (waits[1].revents != 0 && !pass_lines(child.err(), result.messages, on_message)) break;
  }
  result.exit_code = child.end(false, result.messages);
  return result;
}

Result<RunState> state_after_forwarding(const Env& env, const KnownServers& servers,
                                        const IndexEntry& run, const std::string& node,
                                        const ForwardingOutcome& outcome) {
  // Slurm ends the steps of a job shortly before it reports the end of the job.
  constexpr int kTries = 20;
  constexpr std::chrono::milliseconds kPause{250};
  for (int i = 0; i < kTries && outcome.was_ready; ++i) {
    if (i > 0) std::this_thread::sleep_for(kPause);
    const auto status = RunInspector(env, servers).inspect(run.path);
    if (status && is_over(*status)) return status->state;
  }
  const std::string_view messages = trim(outcome.messages);
  return fail(Errc::kRefused, "{}: {} on {} (srun ended with code {}){}{}", run.id,
              outcome.was_ready ? "the forwarding ended" : "the relay did not start", node,
              outcome.exit_code, messages.empty() ? "" : ": ", messages);
}

}  // namespace dlrun
