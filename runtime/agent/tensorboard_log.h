#pragma once
// track.tensorboard: writes the numbers that the program of rank 0 reports, and the use of the
// hardware, to an event file in RUN/tensorboard. Each attempt has a file of its own.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/result.h"
#include "common/run_events.h"
#include "runtime/agent/background_file.h"
#include "runtime/agent/messages.h"
#include "runtime/agent/report_pace.h"
#include "runtime/agent/tensorboard_event.h"

namespace dlrun::agent {

/// Returns the numbers of a report that are values of a step, at most 64. Their names become tags
/// of at most 64 characters from A-Z, a-z, 0-9, '_', '-', '.' and '/'.
[[nodiscard]] std::vector<Scalar> scalars_of(const Json& report);
/// Returns the place of a report on the axis: its step, or its epoch if it has no step.
[[nodiscard]] std::optional<std::int64_t> place_of(const Json& report);
/// Returns the means of the ranks' statistics.
[[nodiscard]] std::vector<Scalar> scalars_of(const events::RankStatistics& statistics);

/// Never blocks: a thread of its own writes the file.
class TensorboardLog {
 public:
  using Clock = std::chrono::steady_clock;
  /// The largest number of different tags in a file.
  static constexpr std::size_t kMostTags = 256;

  /// Creates the folder and a new file. Fails with kIo.
  [[nodiscard]] static Result<std::unique_ptr<TensorboardLog>> open(
      const std::filesystem::path& run, int attempt, const std::string& host,
      std::chrono::system_clock::time_point wall, Clock::time_point now);

  /// Writes a report, unless it follows the last one too soon: within a second, or within 1/5000 of
  /// the time since open(). A file of a long attempt therefore stays small. Always writes a final
  /// report.
  void on_report(const Json& report, std::chrono::system_clock::time_point wall,
                 Clock::time_point now);
  void on_statistics(const events::RankStatistics& statistics,
                     std::chrono::system_clock::time_point wall);
  /// Returns the first failure to write, once.
  [[nodiscard]] std::optional<Error> take_failure() { return file_->take_failure(); }
  /// Waits until the file is written. Returns false after limit.
  [[nodiscard]] bool drain(std::chrono::milliseconds limit) { return file_->drain(limit); }

 private:
  TensorboardLog(std::unique_ptr<BackgroundFile> file, bool is_restart, Clock::time_point now)
      : file_(std::move(file)), is_restart_(is_restart), pace_(now) {}
  void write(std::vector<Scalar> scalars, std::chrono::system_clock::time_point wall);

  std::unique_ptr<BackgroundFile> file_;
  bool is_restart_;  ///< the first report is still to remove the steps of earlier attempts
  ReportPace pace_;
  std::optional<std::int64_t> step_;  ///< of the last report
  std::set<std::string> tags_;
};

}  // namespace dlrun::agent
