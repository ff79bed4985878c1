#pragma once
// Writes to this process's standard output or error without blocking. A paused terminal (Ctrl-S), a
// slow reader or a hung file system must delay neither heartbeats nor signals.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/agent/background_file.h"
#include "runtime/agent/event_loop.h"

namespace dlrun::agent {

class Sink {
 public:
  static constexpr std::size_t kFileQueueLimitBytes = 8U << 20U;

  /// The caller keeps fd open. The loop must outlive the sink.
  Sink(EventLoop& loop, int fd);
  ~Sink();
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  /// Writes as many bytes as possible now and holds the rest. If a write fails because the reader
  /// has gone (EPIPE, EBADF or EIO), drops the held bytes and all later ones. If it fails with any
  /// other error, drops only the held bytes. A regular file is written by another thread, which
  /// holds at most kFileQueueLimitBytes; bytes beyond that are dropped, and a line in the file
  /// reports their number.
  void push(std::string_view bytes);
  /// Returns the number of bytes that are not written yet.
  [[nodiscard]] std::size_t held_bytes() const;

 private:
  void flush();

  EventLoop& loop_;
  int fd_;
  std::string held_;
  std::size_t written_ = 0;                ///< bytes of held_ that are written
  std::optional<EventLoop::Watch> watch_;  ///< watches fd_, or the eventfd of file_
  /// Set if fd_ is a regular file, which always polls as writable although a write may block.
  std::unique_ptr<BackgroundFile> file_;
  bool reader_is_gone_ = false;
};

}  // namespace dlrun::agent
