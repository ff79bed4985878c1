#pragma once
// Shows a full-screen view on the terminal with plain ANSI sequences, and redraws it in place.
// Restores the terminal, also after a crash.

#include <signal.h>
#include <termios.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/terminal/printed_text.h"
#include "common/files.h"
#include "common/result.h"

namespace dlrun {

struct TerminalSize {
  std::size_t columns = 80, rows = 24;
};
/// Returns the size of the terminal `fd`; 80x24 if the terminal does not report one.
[[nodiscard]] TerminalSize terminal_size(int fd);

/// Owns the terminal. A process may have only one FullScreen, and must create it before it starts a
/// thread. While the FullScreen exists, SIGINT, SIGTERM, SIGHUP, SIGTSTP and SIGWINCH are blocked
/// in all threads, and wait() receives them. After a fault (SIGSEGV, SIGABRT, ...) or SIGQUIT, a
/// handler restores the terminal before the process ends.
class FullScreen {
 public:
  /// Fails with kUsage if standard input or output is no terminal, and with kIo after an error of
  /// the system.
  [[nodiscard]] static Result<FullScreen> open();
  FullScreen(FullScreen&& other) noexcept;
  FullScreen& operator=(FullScreen&&) = delete;
  ~FullScreen();

  [[nodiscard]] TerminalSize size() const;
  /// Replaces the content of the screen by `lines`, from the top. The caller cuts each line to the
  /// terminal's width.
  void draw(const std::vector<Text>& lines, bool colour);

  enum class Event {
    kNone,      ///< the time limit passed, or a key without a meaning was pressed
    kRedraw,    ///< the size changed, or the process returned from the background
    kQuit,      ///< q, Ctrl-D, or the terminal is gone
    kTerminate  ///< SIGINT (Ctrl-C), SIGTERM or SIGHUP
  };
  /// Waits for a key or a signal, at most `limit`.
  [[nodiscard]] Event wait(std::chrono::milliseconds limit);

 private:
  FullScreen(const termios& before, const sigset_t& mask_before, UniqueFd signals)
      : before_(before), mask_before_(mask_before), signals_(std::move(signals)) {}
  void enter();
  void leave();
  [[nodiscard]] Event handle_signals();

  termios before_{};        ///< the settings of the terminal before open()
  sigset_t mask_before_{};  ///< the signals that were blocked before open()
  UniqueFd signals_;
  bool owns_terminal_ = true;  ///< false after a move
  bool is_shown_ = false;
};

}  // namespace dlrun
