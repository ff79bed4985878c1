#include "cli/terminal/progress_line.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/terminal/full_screen.h"
#include "cli/terminal/print.h"
#include "cli/terminal/stream.h"

namespace dlrun {
namespace {

constexpr const char* kClear = "\r\x1b[K";

/// Cuts text to at most `width` columns, including the three dots. A text that does not fit into a
/// `width` below 3 becomes the three dots, which are then wider than `width`.
std::string cut_to(const std::string& text, std::size_t width) {
  constexpr std::size_t kDots = 3;
  const bool fits = shortened(text, width) == text;
  return fits ? text : shortened(text, width > kDots ? width - kDots : 0);
}

}  // namespace

ProgressLine::ProgressLine(const Cli& cli)
    : can_show_(is_error_terminal() && cli.env.get_or("TERM", "") != "dumb") {}

void ProgressLine::show(const std::string& what, const std::string& figures) {
  if (!can_show_) return;
  // A line longer than the terminal would wrap, and its first part would stay on the screen.
  const std::size_t width = std::max<std::size_t>(terminal_size(STDERR_FILENO).columns, 8) - 1;
  const std::string shown_what =
      cut_to(printable(what), width > figures.size() ? width - figures.size() : 0);
  write_to(stderr, "\r" + cut_to(shown_what + printable(figures), width) + "\x1b[K");
  flush(stderr);
  is_drawn_ = true;
}

void ProgressLine::clear() {
  if (is_drawn_) write_to(stderr, kClear);
  is_drawn_ = false;
}

}  // namespace dlrun
