#pragma once
// Our own standard output or error, written without ever blocking: a terminal that is held
// (Ctrl-S), a reader that sleeps and a file system that hangs stop neither heartbeats nor signals.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/agent/background_file.h"
#include "runtime/agent/event_loop.h"

namespace dlrun::agent {

class Sink {
 public:
  static constexpr std::size_t kFileHoldsBytes = 8U << 20U;

  /// fd stays the caller's. on_room is called when held bytes have been written. The loop outlives
  /// the sink.
  Sink(EventLoop& loop, int fd, std::function<void()> on_room = {});
  ~Sink();
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  /// Writes what fits now, holds the rest. After the reader has gone away (EPIPE) bytes are
  /// dropped. A file is written by a thread of its own, which holds kFileHoldsBytes; what it has no
  /// room for is counted, and a line of the file says so.
  void push(std::string_view bytes);
  [[nodiscard]] std::size_t held_bytes() const;
  [[nodiscard]] bool is_gone() const { return is_gone_; }

 private:
  void flush();

  EventLoop& loop_;
  int fd_;
  std::function<void()> on_room_;
  std::string held_;
  std::size_t written_ = 0;                ///< of held_
  std::optional<EventLoop::Watch> watch_;  ///< of fd_, or of file_'s news
  std::unique_ptr<BackgroundFile>
      file_;  ///< where fd_ is a regular file: it always polls as writable
  bool is_gone_ = false;
};

}  // namespace dlrun::agent
