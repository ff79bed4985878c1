#pragma once
// Copies a program's output pipe to this process's own output. A function can read each piece on
// the way, and replace it.

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/files.h"
#include "runtime/agent/event_loop.h"
#include "runtime/agent/sink.h"

namespace dlrun::agent {

class Pump {
 public:
  /// shape: gets every piece and returns the text for the sink; empty: pieces stay unchanged.
  /// The loop and the sink must outlive the pump. Back-pressure: while the sink holds too many
  /// bytes, the pipe is not read, so the program has to wait.
  Pump(EventLoop& loop, UniqueFd pipe, Sink& sink,
       std::function<std::string(std::string_view)> shape);
  ~Pump();
  Pump(const Pump&) = delete;
  Pump& operator=(const Pump&) = delete;

  /// Resumes reading once the sink has room. Call it after each round of the loop.
  void tick();
  /// Reads the bytes that are in the pipe now, without waiting; at most 4 MiB.
  void drain();
  /// Returns true once every writer has closed the pipe.
  [[nodiscard]] bool is_at_end() const { return !pipe_.is_open(); }

 private:
  /// Reads one piece. Returns false if there is nothing to read now, or if the pipe has ended.
  bool read_once();
  void pause();

  EventLoop& loop_;
  UniqueFd pipe_;
  Sink& sink_;
  std::function<std::string(std::string_view)> shape_;
  std::optional<EventLoop::Watch> watch_;
};

struct Pipe {
  UniqueFd read_end;  ///< non-blocking
  UniqueFd write_end;
};
/// Creates a pipe with close-on-exec ends. Fails with kIo.
[[nodiscard]] Result<Pipe> make_output_pipe();

}  // namespace dlrun::agent
