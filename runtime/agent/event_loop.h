#pragma once
// epoll and the callbacks behind it. One thread.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

#include "common/files.h"
#include "common/result.h"

namespace dlrun::agent {

class EventLoop {
 public:
  /// What is called with the EPOLL* flags that are ready.
  using Callback = std::function<void(std::uint32_t)>;
  /// Names a watched descriptor; never used twice, so that a closed descriptor's number cannot be
  /// mistaken.
  using Watch = std::uint64_t;

  [[nodiscard]] static Result<EventLoop> create();

  /// Watches fd, which the caller keeps open until unwatch(). Nothing for a descriptor that is
  /// always ready (a regular file) and cannot be watched.
  [[nodiscard]] std::optional<Watch> watch(int fd, std::uint32_t events, Callback callback);
  void change(Watch watch, std::uint32_t events);
  /// From anywhere, also from the callback itself.
  void unwatch(Watch watch);

  /// Waits for one batch of readiness, at most timeout, and calls back.
  void run_once(std::chrono::milliseconds timeout);

 private:
  struct Watched {
    int fd;
    std::shared_ptr<Callback> callback;
  };

  explicit EventLoop(UniqueFd epoll) : epoll_(std::move(epoll)) {}

  UniqueFd epoll_;
  Watch next_ = 1;
  std::unordered_map<Watch, Watched> watched_;
};

}  // namespace dlrun::agent
