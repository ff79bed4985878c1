#pragma once
// Our own standard output or error, written without ever blocking: a terminal that is held (Ctrl-S) or a reader that
// sleeps stops neither heartbeats nor signals.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/agent/event_loop.h"

namespace dlrun::agent {

class Sink {
 public:
  /// fd stays the caller's. on_room is called when held bytes have been written. The loop outlives the sink.
  Sink(EventLoop& loop, int fd, std::function<void()> on_room = {});
  ~Sink();
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  /// Writes what fits now, holds the rest. After the reader has gone away (EPIPE) bytes are dropped.
  void push(std::string_view bytes);
  [[nodiscard]] std::size_t held_bytes() const { return held_.size() - written_; }
  [[nodiscard]] bool is_gone() const { return is_gone_; }

 private:
  void flush();

  EventLoop& loop_;
  int fd_;
  std::function<void()> on_room_;
  std::string held_;
  std::size_t written_ = 0;  ///< of held_
  std::optional<EventLoop::Watch> watch_;
  bool is_gone_ = false;
};

}  // namespace dlrun::agent
