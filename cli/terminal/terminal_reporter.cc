#include "cli/terminal/terminal_reporter.h"

#include "cli/terminal/print.h"
#include "common/text.h"
#include "common/units.h"

namespace dlrun {

void TerminalReporter::diagnostics(const std::vector<Diagnostic>& found) {
  print_diagnostics(cli_, found);
}

void TerminalReporter::warning(std::string_view message) {
  print_warning(cli_, message);
}

void TerminalReporter::note(std::string_view message) {
  print_note(cli_, message);
}

void TerminalReporter::progress(const std::filesystem::path& folder, const std::string& what,
                                const DownloadProgress& progress) {
  using Clock = std::chrono::steady_clock;
  if (!line_) line_.emplace(cli_);
  if (what != what_) {
    what_ = what;
    began_ = Clock::now();
  }
  if (progress.is_waiting) {
    if (!is_wait_shown_ && !line_->can_show())
      note(fmt::format("waiting for another dlrun that downloads into {}",
                       printable(folder.string())));
    is_wait_shown_ = true;
    line_->show("waiting for another dlrun that downloads into the same folder", "");
    return;
  }
  const auto bytes = static_cast<double>(progress.bytes);
  std::string figures = fmt::format(": {}", bytes_text(bytes));
  if (progress.total && *progress.total > 0) {
    const auto total = static_cast<double>(*progress.total);
    figures += fmt::format(" of {} ({:.0f} %)", bytes_text(total), 100.0 * bytes / total);
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - began_).count();
  if (seconds > 0) figures += fmt::format(", {}/s", bytes_text(bytes / seconds));
  line_->show(what, figures);
}

void TerminalReporter::progress_ended() {
  line_.reset();
  what_.clear();
}

void TerminalReporter::downloaded(const std::filesystem::path& folder, std::size_t files,
                                  std::int64_t bytes) {
  note(fmt::format("downloaded {} file{}, {}, into {}", files, files == 1 ? "" : "s",
                   bytes_text(static_cast<double>(bytes)), printable(folder.string())));
}

}  // namespace dlrun
