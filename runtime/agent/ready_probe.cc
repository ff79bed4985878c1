#include "runtime/agent/ready_probe.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "common/text.h"
#include "runtime/agent/address.h"

namespace dlrun::agent {
namespace {

constexpr const char* kListenOnAll =
    "; does the program listen on this port, and on all addresses (0.0.0.0) instead of 127.0.0.1?";

}  // namespace

std::optional<int> parse_http_status(std::string_view response) {
  if (!response.starts_with("HTTP/")) return std::nullopt;
  const auto space = response.find(' ');
  if (space == std::string_view::npos || response.size() < space + 4) return std::nullopt;
  const auto code = parse_int(response.substr(space + 1, 3));
  if (!code || *code < 100 || *code > 999) return std::nullopt;
  return static_cast<int>(*code);
}

ReadyProbe::ReadyProbe(EventLoop& loop, Endpoint endpoint, ReadyCheck check)
    : loop_(loop), endpoint_(std::move(endpoint)), check_(std::move(check)) {}

ReadyProbe::~ReadyProbe() {
  if (watch_) loop_.unwatch(*watch_);
}

std::string ReadyProbe::problem() const {
  return check_.kind == ReadyCheck::Kind::kHttp
             ? fmt::format("GET http://{}{}: {}", endpoint_.text(), check_.path, problem_)
             : fmt::format("TCP connection to {}: {}", endpoint_.text(), problem_);
}

void ReadyProbe::tick(Clock::time_point now) {
  if (is_ready_) return;
  if (watch_ && now >= began_ + kTryLimit)
    end_try(fmt::format("no answer within {} s", kTryLimit.count() / 1000));
  if (!watch_ && now >= next_) begin_try(now);
}

void ReadyProbe::begin_try(Clock::time_point now) {
  began_ = now;
  next_ = now + kTryEvery;
  is_connected_ = false;
  answer_.clear();
  auto socket = begin_connect(endpoint_);
  if (!socket) return end_try(socket.error().message);
  socket_ = std::move(*socket);
  watch_ = loop_.watch(socket_.get(), EPOLLOUT, [this](std::uint32_t) { on_socket(); });
  if (!watch_) end_try("the socket cannot be watched");
}

void ReadyProbe::on_socket() {
  if (is_connected_) return read_answer();
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) {
    const bool may_listen_on_loopback = error == ECONNREFUSED && !is_loopback(endpoint_.ip);
    return end_try(errno_text(error) + (may_listen_on_loopback ? kListenOnAll : ""));
  }
  is_connected_ = true;
  if (check_.kind == ReadyCheck::Kind::kHttp) return send_request();
  is_ready_ = true;
  end_try({});
}

void ReadyProbe::send_request() {
  const auto request = fmt::format(
      "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: dlrun\r\nAccept: */*\r\nConnection: "
      "close\r\n\r\n",
      check_.path, endpoint_.text());
  // A new connection's buffer always has room for the request.
  const ssize_t sent = ::send(socket_.get(), request.data(), request.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(request.size()))
    return end_try(sent < 0 ? errno_text(errno) : std::string("the request was cut"));
  loop_.change(*watch_, EPOLLIN);
}

void ReadyProbe::read_answer() {
  std::array<char, kAnswerLimitBytes> buffer;
  const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size() - answer_.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got < 0) return end_try(errno_text(errno));
  answer_.append(buffer.data(), static_cast<std::size_t>(got));
  const bool is_whole =
      got == 0 || answer_.size() == kAnswerLimitBytes || answer_.find('\n') != std::string::npos;
  if (!is_whole) return;
  if (answer_.empty()) return end_try("the program closed the connection without an answer");
  const auto code = parse_http_status(answer_);
  if (!code) return end_try("the answer is not HTTP");
  is_ready_ = *code >= 200 && *code < 300;
  end_try(fmt::format("code {}", *code));
}

void ReadyProbe::end_try(std::string problem) {
  if (watch_) loop_.unwatch(*watch_);
  watch_.reset();
  socket_.reset();
  problem_ = std::move(problem);
}

}  // namespace dlrun::agent
