#pragma once
// A full screen on the terminal: plain ANSI, drawn in place, put back as it was whatever happens.

#include <termios.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/terminal/text.h"
#include "common/files.h"
#include "common/result.h"

namespace dlrun {

struct TerminalSize {
  std::size_t columns = 80, rows = 24;
};
/// Of the terminal that fd is; 80x24 where it does not say.
[[nodiscard]] TerminalSize terminal_size(int fd);

/// One at a time in a process, made before any other thread: from then on SIGINT, SIGTERM, SIGHUP,
/// SIGTSTP and SIGWINCH are waited for, in all threads. A fault (SIGSEGV, SIGABRT, ...) puts the
/// terminal back before it ends the process.
class FullScreen {
 public:
  /// Fails with kUsage where standard input or output is no terminal.
  [[nodiscard]] static Result<FullScreen> open();
  FullScreen(FullScreen&& other) noexcept;
  FullScreen& operator=(FullScreen&&) = delete;
  ~FullScreen();

  [[nodiscard]] TerminalSize size() const;
  /// Shows lines from the top, each cut to the terminal's width by the caller; what was there
  /// before is gone.
  void draw(const std::vector<Text>& lines, bool colour);

  enum class Event {
    kNone,      ///< time ran out
    kRedraw,    ///< another size, or back from the background
    kQuit,      ///< q, Ctrl-C, or the terminal is gone
    kTerminate  ///< SIGTERM or SIGHUP
  };
  [[nodiscard]] Event wait(std::chrono::milliseconds limit);

 private:
  FullScreen(const termios& before, UniqueFd signals)
      : before_(before), signals_(std::move(signals)) {}
  void enter();
  void leave();
  [[nodiscard]] Event on_signals();

  termios before_{};
  UniqueFd signals_;
  bool is_open_ = true, is_shown_ = false;
};

}  // namespace dlrun
