#pragma once
// An event loop: epoll with a callback for each watched descriptor. One thread.

#include <chrono>
#include <cstddef>
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
  /// A function that gets the EPOLL* flags that are ready.
  using Callback = std::function<void(std::uint32_t)>;
  /// The id of a watched descriptor. Ids are never reused, so an event of a closed descriptor
  /// cannot reach the callback of a new one with the same number.
  using Watch = std::uint64_t;

  /// Fails with kIo.
  [[nodiscard]] static Result<EventLoop> create();

  /// Watches fd, which the caller must keep open until unwatch(). Returns nullopt if fd cannot be
  /// watched: epoll refuses a regular file, for example.
  [[nodiscard]] std::optional<Watch> watch(int fd, std::uint32_t events, Callback callback);
  /// Replaces the EPOLL* flags to wait for. Does nothing after unwatch().
  void change(Watch watch, std::uint32_t events);
  /// Stops watching. May be called from any callback, including the descriptor's own.
  void unwatch(Watch watch);

  /// Waits for ready descriptors, at most for timeout and at most 60 s, and calls their callbacks.
  /// Returns the number of descriptors that were ready.
  std::size_t run_once(std::chrono::milliseconds timeout);

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
