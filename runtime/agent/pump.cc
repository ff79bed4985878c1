#include "runtime/agent/pump.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace dlrun::agent {
namespace {

constexpr std::size_t kSinkLimitBytes = 256U << 10U;

}  // namespace

Pump::Pump(EventLoop& loop, UniqueFd pipe, Sink& sink,
           std::function<std::string(std::string_view)> shape)
    : loop_(loop), pipe_(std::move(pipe)), sink_(sink), shape_(std::move(shape)) {
  tick();
}

Pump::~Pump() {
  pause();
}

void Pump::pause() {
  if (watch_) loop_.unwatch(*watch_);
  watch_.reset();
}

void Pump::tick() {
  if (watch_ || !pipe_.is_open() || sink_.held_bytes() >= kSinkLimitBytes) return;
  watch_ = loop_.watch(pipe_.get(), EPOLLIN, [this](std::uint32_t) {
    read_once();
    if (sink_.held_bytes() >= kSinkLimitBytes) pause();
  });
}

bool Pump::read_once() {
  if (!pipe_.is_open()) return false;
  std::array<char, 1U << 16U> buffer;
  const ssize_t got = ::read(pipe_.get(), buffer.data(), buffer.size());
  if (got < 0) return errno == EINTR;
  if (got == 0) {
    pause();
    pipe_.reset();
    return false;
  }
  const std::string_view bytes(buffer.data(), static_cast<std::size_t>(got));
  if (shape_) {
    sink_.push(shape_(bytes));
  } else {
    sink_.push(bytes);
  }
  return true;
}

void Pump::drain() {
  // The number of reads is limited, because a fast writer could fill the pipe without end.
  for (int rounds = 0; rounds < 64 && read_once(); ++rounds) {
  }
}

Result<Pipe> make_output_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail(Errc::kIo, "pipe: {}", errno_text(errno));
  Pipe pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
  if (::fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0)
    return fail(Errc::kIo, "pipe: {}", errno_text(errno));
  return pipe;
}

}  // namespace dlrun::agent
