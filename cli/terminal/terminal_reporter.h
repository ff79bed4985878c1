#pragma once
// Shows the messages of a submission on standard error.

#include <chrono>
#include <optional>
#include <string>

#include "cli/cli.h"
#include "cli/terminal/progress_line.h"
#include "launcher/submit/reporter.h"

namespace dlrun {

/// Prints messages through print.h. On a terminal, shows the progress of downloads in one line.
/// Without a terminal, progress() prints only one note, when a download waits for another dlrun.
/// `cli` must outlive this object.
class TerminalReporter final : public Reporter {
 public:
  explicit TerminalReporter(const Cli& cli) : cli_(cli) {}

  void diagnostics(const std::vector<Diagnostic>& found) override;
  void warning(std::string_view message) override;
  void note(std::string_view message) override;
  void progress(const std::filesystem::path& folder, const std::string& what,
                const DownloadProgress& progress) override;
  void progress_ended() override;
  void downloaded(const std::filesystem::path& folder, std::size_t files,
                  std::int64_t bytes) override;

 private:
  const Cli& cli_;
  std::optional<ProgressLine> line_;             ///< set while a download is in progress
  std::string what_;                             ///< the download that line_ shows
  std::chrono::steady_clock::time_point began_;  ///< the time when line_ first showed what_
  bool is_wait_shown_ = false;                   ///< the wait for another dlrun has been reported
};

}  // namespace dlrun
