#include "runtime/agent/link.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace dlrun::agent {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Programs that are no agents can fill lead's accept queue with their connections. The kernel of
// lead's node then drops the SYN of a rank. The rank's own kernel repeats the SYN only after one
// second, and then at growing intervals. A new connection succeeds sooner. Therefore a try ends
// after kSynLimit if its SYN has no answer. Lead may also be slow, so each try has a longer limit
// than the previous one.
constexpr milliseconds kSynLimit{400};
// The limit of the first try of an endpoint, from SYN to the end of the handshake (lead's message
// authentication code).
constexpr milliseconds kFirstTryLimit{1000};
constexpr milliseconds kLongestTryLimit{4000};
constexpr milliseconds kAskEvery{200};  ///< interval of the calls of should_stop
constexpr milliseconds kFirstPause{50};
constexpr milliseconds kLongestPause{1000};
constexpr std::size_t kUnsentLimitBytes = 16U << 20U;

/// Waits until the socket is ready. Fails with kTimeout at `until`, and with kInterrupted if
/// should_stop returns true.
Result<> wait_for(int socket, short events, Clock::time_point until,
                  const std::function<bool()>& should_stop) {
  for (;;) {
    if (should_stop()) return fail(Errc::kInterrupted, "asked to stop");
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
    if (left <= milliseconds::zero()) return fail(Errc::kTimeout, "no answer in time");
    pollfd ready{.fd = socket, .events = events, .revents = 0};
    if (::poll(&ready, 1, static_cast<int>(std::min(left, kAskEvery).count())) > 0) return {};
  }
}

}  // namespace

LinkTry::LinkTry(UniqueFd socket, const Key& secret, const RankIdentity& identity,
                 Clock::time_point now, milliseconds limit)
    : socket_(std::move(socket)),
      handshake_(secret, identity),
      syn_until_(now + kSynLimit),
      until_(now + limit) {}

Result<LinkTry> LinkTry::begin(const Endpoint& endpoint, const Key& secret,
                               const RankIdentity& identity, milliseconds limit,
                               const std::optional<std::string>& source) {
  auto socket = begin_connect(endpoint, source);
  if (!socket) return tl::unexpected<Error>(std::move(socket.error()));
  return LinkTry(std::move(*socket), secret, identity, Clock::now(), limit);
}

LinkTry::Clock::time_point LinkTry::until() const {
  return is_connecting_ ? std::min(syn_until_, until_) : until_;
}

Result<> LinkTry::check_connected() const {
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return fail(Errc::kUnavailable, "{}", errno_text(error));
  return {};
}

Result<std::optional<Link>> LinkTry::advance() {
  if (is_connecting_) {
    DLRUN_TRY(check_connected());
    is_connecting_ = false;
  }
  for (;;) {
    std::array<char, 4096> buffer;
    const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return std::nullopt;
    if (got < 0) return fail(Errc::kUnavailable, "{}", errno_text(errno));
    if (got == 0) {
      return fail(
          Errc::kUnavailable, "{}",
          has_sent_answer_
              ? "lead refuses this rank: another process has joined as this rank, this process "
                "belongs to another attempt or step, or the attempt takes no more ranks"
              : "the other side closed the connection without a greeting");
    }
    auto link = take(std::string_view(buffer.data(), static_cast<std::size_t>(got)));
    if (!link || *link) return link;
  }
}

/// Passes received bytes to the handshake, and sends its answer.
Result<std::optional<Link>> LinkTry::take(std::string_view bytes) {
  in_ += bytes;
  if (!has_sent_answer_) {
    const auto answer = handshake_.answer(in_);
    if (!answer) return tl::unexpected<Error>(answer.error());
    if (!*answer) return std::nullopt;
    has_sent_answer_ = true;
    // The send buffer of a new connection always has room for a few hundred bytes.
    if (::send(socket_.get(), (*answer)->data(), (*answer)->size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>((*answer)->size())) {
      return fail(Errc::kUnavailable, "{}", errno_text(errno));
    }
  }
  const auto channel = handshake_.finish(in_);
  if (!channel) return tl::unexpected<Error>(channel.error());
  if (!*channel) return std::nullopt;
  return Link(std::move(socket_), **channel, std::move(in_));
}

LinkPace::LinkPace()
    : random_(std::random_device{}()), pause_(kFirstPause), try_limit_(kFirstTryLimit) {}

milliseconds LinkPace::next_pause() {
  const auto longest = pause_.count();
  const milliseconds taken(std::uniform_int_distribution<long>(longest / 2, longest)(random_));
  pause_ = std::min(pause_ * 2, kLongestPause);
  try_limit_ = std::min(try_limit_ * 2, kLongestTryLimit);
  return taken;
}

namespace {

/// Makes one try at an endpoint and waits for its result.
Result<Link> connect_once(const Endpoint& endpoint, const Key& secret, const RankIdentity& identity,
                          milliseconds limit, const std::function<bool()>& should_stop) {
  auto one_try = LinkTry::begin(endpoint, secret, identity, limit);
  if (!one_try) return tl::unexpected<Error>(std::move(one_try.error()));
  for (;;) {
    DLRUN_TRY(wait_for(one_try->socket(), one_try->is_connecting() ? POLLOUT : POLLIN,
                       one_try->until(), should_stop));
    auto link = one_try->advance();
    if (!link) return tl::unexpected<Error>(std::move(link.error()));
    if (*link) return std::move(**link);
  }
}

}  // namespace

Result<Link> Link::connect(const std::vector<Endpoint>& endpoints, const Key& secret,
                           const RankIdentity& identity, milliseconds limit,
                           const std::function<bool()>& should_stop) {
  const auto until = Clock::now() + limit;
  LinkPace pace;
  for (;;) {
    std::string errors;
    for (const auto& endpoint : endpoints) {
      const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
      auto link =
          connect_once(endpoint, secret, identity, std::min(left, pace.try_limit()), should_stop);
      if (link || link.error().code == Errc::kInterrupted) return link;
      errors += fmt::format("{}{}: {}", errors.empty() ? "" : "; ", endpoint.text(),
                            link.error().message);
    }
    const auto pause = pace.next_pause();
    if (Clock::now() + pause >= until) {
      return fail(Errc::kUnavailable, "there is no connection to lead after {} s: {}",
                  limit.count() / 1000, errors);
    }
    // Without a socket there is nothing to become ready, so this call ends with kTimeout or
    // kInterrupted.
    const auto paused = wait_for(-1, 0, Clock::now() + pause, should_stop);
    if (paused.error().code == Errc::kInterrupted) return tl::unexpected<Error>(paused.error());
  }
}

void Link::close(std::string why) {
  if (!socket_.is_open()) return;
  why_closed_ = std::move(why);
  socket_.reset();
  out_.clear();
}

void Link::send(std::string_view payload) {
  if (!socket_.is_open()) return;
  out_ += channel_.make_frame(payload);
  flush();
  if (out_.size() > kUnsentLimitBytes) close("lead does not read the data sent to it");
}

void Link::flush() {
  std::size_t sent_bytes = 0;
  while (socket_.is_open() && sent_bytes < out_.size()) {
    const ssize_t sent = ::send(socket_.get(), out_.data() + sent_bytes, out_.size() - sent_bytes,
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN) return close(errno_text(errno));
    if (sent < 0) break;
    sent_bytes += static_cast<std::size_t>(sent);
  }
  out_.erase(0, sent_bytes);
}

bool Link::receive(const std::function<void(std::string_view)>& on_message) {
  std::array<char, 1U << 16U> buffer;
  for (int rounds = 0; rounds < 4 && socket_.is_open(); ++rounds) {
    const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    const bool is_empty = got < 0 && errno == EAGAIN;
    if (got > 0) in_.append(buffer.data(), static_cast<std::size_t>(got));
    const std::string why = got == 0 ? "lead has closed the connection"
                                     : (got < 0 && !is_empty ? errno_text(errno) : "");
    while (socket_.is_open()) {
      auto message = channel_.take_payload(in_);
      if (!message) {
        close(message.error().message);
        break;
      }
      if (!*message) break;
      on_message(**message);
    }
    if (!why.empty()) close(why);
    if (is_empty) break;
  }
  return socket_.is_open();
}

}  // namespace dlrun::agent
