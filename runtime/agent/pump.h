#pragma once
// From a program's output pipe to our own output; on the way each piece can be read, and given
// another shape.

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
  /// shape gets every piece and returns the text for the sink; without it a piece goes there as it
  /// is. The loop and the sink outlive the pump. While the sink holds much, the pipe is not read:
  /// the program waits, as it would without us.
  Pump(EventLoop& loop, UniqueFd pipe, Sink& sink,
       std::function<std::string(std::string_view)> shape);
  ~Pump();
  Pump(const Pump&) = delete;
  Pump& operator=(const Pump&) = delete;

  /// Goes on reading once the sink has room. To be called after each round of the loop.
  void tick();
  /// Takes what is in the pipe now, without waiting.
  void drain();
  /// Every writer has closed the pipe.
  [[nodiscard]] bool is_at_end() const { return !pipe_.is_open(); }

 private:
  /// False when there is nothing more for now.
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
[[nodiscard]] Result<Pipe> make_output_pipe();

}  // namespace dlrun::agent
