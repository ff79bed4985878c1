// Signals arrive through a signalfd, so that poll() waits for keys and signals together. Handlers
// exist only for faults and for SIGQUIT. They restore the terminal before the process dies.

#include "cli/terminal/full_screen.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <tuple>
#include <utility>

namespace dlrun {
namespace {

constexpr std::array<int, 5> kWaitedSignals = {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGWINCH};
constexpr std::array<int, 6> kDeadlySignals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGQUIT};

// kEnter selects the alternate screen, hides the cursor, disables wrapping and clears the screen.
// kLeave restores the screen, the cursor and wrapping.
constexpr std::string_view kEnter = "\033[?1049h\033[?25l\033[?7l\033[2J";
constexpr std::string_view kLeave = "\033[?7h\033[?25h\033[?1049l";

termios g_before{};  // global, because a signal handler can access only global variables

extern "C" void restore_and_die(int signal) {
  std::ignore = ::write(STDOUT_FILENO, kLeave.data(), kLeave.size());
  ::tcsetattr(STDIN_FILENO, TCSANOW, &g_before);
  ::raise(signal);  // SA_RESETHAND: the signal now has its default action
}

void set_deadly_signal_handlers(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  sigemptyset(&action.sa_mask);
  for (const int signal : kDeadlySignals) ::sigaction(signal, &action, nullptr);
}

sigset_t waited_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kWaitedSignals) sigaddset(&set, signal);
  return set;
}

}  // namespace

TerminalSize terminal_size(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

Result<FullScreen> FullScreen::open() {
  termios before{};
  if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDOUT_FILENO) != 1 ||
      ::tcgetattr(STDIN_FILENO, &before) != 0) {
    return fail(Errc::kUsage, "standard input or standard output is not a terminal");
  }
  const sigset_t set = waited_signals();
  UniqueFd signals(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals.is_open()) return fail(Errc::kIo, "signalfd: {}", errno_text(errno));
  sigset_t mask_before;
  ::pthread_sigmask(SIG_BLOCK, &set, &mask_before);
  g_before = before;
  set_deadly_signal_handlers(restore_and_die);
  FullScreen screen(before, mask_before, std::move(signals));
  screen.enter();
  return screen;
}

FullScreen::FullScreen(FullScreen&& other) noexcept
    : before_(other.before_),
      mask_before_(other.mask_before_),
      signals_(std::move(other.signals_)),
      owns_terminal_(std::exchange(other.owns_terminal_, false)),
      is_shown_(std::exchange(other.is_shown_, false)) {}

FullScreen::~FullScreen() {
  if (!owns_terminal_) return;
  leave();
  set_deadly_signal_handlers(SIG_DFL);
  ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

void FullScreen::enter() {
  if (std::exchange(is_shown_, true)) return;
  termios raw = before_;
  // ISIG stays set, so that Ctrl-C and Ctrl-Z are still signals.
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw);
  std::ignore = write_all(STDOUT_FILENO, kEnter);
}

void FullScreen::leave() {
  if (!std::exchange(is_shown_, false)) return;
  std::ignore = write_all(STDOUT_FILENO, kLeave);
  ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
}

TerminalSize FullScreen::size() const {
  return terminal_size(STDOUT_FILENO);
}

void FullScreen::draw(const std::vector<Text>& lines, bool colour) {
  // The whole screen is sent in a single write, so that no terminal shows half of it. Each line
  // clears the rest of its row, and the last line clears everything below.
  std::string text = "\033[H";
  for (std::size_t at = 0; at < lines.size(); ++at) {
    if (at > 0) text += "\r\n";
    text += lines[at].render(colour);
    text += "\033[0m\033[K";
  }
  text += "\033[J";
  std::ignore = write_all(STDOUT_FILENO, text);
}

FullScreen::Event FullScreen::handle_signals() {
  Event event = Event::kNone;
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    switch (static_cast<int>(info.ssi_signo)) {
      case SIGWINCH:
        event = std::max(event, Event::kRedraw);
        break;
      case SIGTSTP:  // Ctrl-Z: restores the shell's screen until the process is continued
        leave();
        ::kill(::getpid(), SIGSTOP);
        enter();
        event = std::max(event, Event::kRedraw);
        break;
      default:
        event = Event::kTerminate;
    }
  }
  return event;
}

FullScreen::Event FullScreen::wait(std::chrono::milliseconds limit) {
  std::array<pollfd, 2> polled{pollfd{signals_.get(), POLLIN, 0}, pollfd{STDIN_FILENO, POLLIN, 0}};
  if (::poll(polled.data(), polled.size(), static_cast<int>(limit.count())) <= 0)
    return Event::kNone;
  if ((polled[0].revents & POLLIN) != 0) {
    if (const Event event = handle_signals(); event != Event::kNone) return event;
  }
  if ((polled[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
    std::array<char, 64> keys{};
    const ssize_t got = ::read(STDIN_FILENO, keys.data(), keys.size());
    if (got <= 0 && (polled[1].revents & (POLLHUP | POLLERR)) != 0)
      return Event::kQuit;  // the terminal is gone
    const auto typed =
        std::string_view(keys.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    // An arrow key sends ESC and letters; these letters are not commands.
    if (!typed.starts_with('\033') && typed.find_first_of("qQ\x04") != std::string_view::npos)
      return Event::kQuit;
  }
  return Event::kNone;
}

}  // namespace dlrun
