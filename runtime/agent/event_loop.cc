#include "runtime/agent/event_loop.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace dlrun::agent {

Result<EventLoop> EventLoop::create() {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.is_open()) return fail(Errc::kIo, "epoll: {}", errno_text(errno));
  return EventLoop(std::move(epoll));
}

std::optional<EventLoop::Watch> EventLoop::watch(int fd, std::uint32_t events, Callback callback) {
  const Watch watch = next_++;
  epoll_event event{.events = events, .data = {.u64 = watch}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return std::nullopt;
  watched_.emplace(watch, Watched{fd, std::make_shared<Callback>(std::move(callback))});
  return watch;
}

void EventLoop::change(Watch watch, std::uint32_t events) {
  const auto found = watched_.find(watch);
  if (found == watched_.end()) return;
  epoll_event event{.events = events, .data = {.u64 = watch}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, found->second.fd, &event);
}

void EventLoop::unwatch(Watch watch) {
  const auto found = watched_.find(watch);
  if (found == watched_.end()) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.fd, nullptr);
  watched_.erase(found);
}

std::size_t EventLoop::run_once(std::chrono::milliseconds timeout) {
  std::array<epoll_event, 256> ready;
  const auto wait = std::clamp<std::chrono::milliseconds::rep>(timeout.count(), 0, 60'000);
  const int count = ::epoll_wait(epoll_.get(), ready.data(), ready.size(), static_cast<int>(wait));
  for (int i = 0; i < count; ++i) {
    const auto& event = ready[static_cast<std::size_t>(i)];
    const auto found = watched_.find(event.data.u64);
    if (found == watched_.end()) continue;  // an earlier callback of this batch unwatched it
    const auto callback = found->second.callback;
    (*callback)(event.events);
  }
  return static_cast<std::size_t>(std::max(count, 0));
}

}  // namespace dlrun::agent
