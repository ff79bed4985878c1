#pragma once
// track.tensorboard: writes the numbers that the program of rank 0 reports, and the use of the
// hardware, to an event file in RUN/tensorboard. The numbers of dlrun's trainer come from
// metrics.jsonl. Each attempt has a file of its own.

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
#include "runtime/agent/metrics_follower.h"
#include "runtime/agent/report_pace.h"
#include "runtime/agent/tensorboard_event.h"

namespace dlrun::agent {

/// The source of the program's values.
enum class ValueSource {
  kReports,      ///< the progress reports of rank 0
  kMetricsFile,  ///< metrics.jsonl, which has more values than the reports of dlrun's trainer
};

/// Returns the means of the ranks' use of processor, memory and GPUs.
[[nodiscard]] std::vector<Scalar> scalars_of(const events::RankStatistics& statistics);

/// Blocks only in open() and drain(): threads of its own write the file and read metrics.jsonl.
class TensorboardLog {
 public:
  using Clock = std::chrono::steady_clock;
  /// The largest number of different tags in a file.
  static constexpr std::size_t kMostTags = 256;

  /// Creates the folder and a new file. With kMetricsFile, call it before the programs start: the
  /// lines that metrics.jsonl has by then belong to earlier attempts. Fails with kIo.
  [[nodiscard]] static Result<std::unique_ptr<TensorboardLog>> open(
      const std::filesystem::path& run, int attempt, const std::string& host,
      std::chrono::system_clock::time_point wall, Clock::time_point now,
      ValueSource source = ValueSource::kReports);

  /// Writes the numbers of a report. Skips a report that is not final if it follows the last
  /// written one too closely (ReportPace), so that the file of a long attempt stays small. Drops
  /// numbers with new tags once the file has kMostTags tags. Drops every report, final or not,
  /// while the file is not written fast enough. Does nothing with kMetricsFile.
  void on_report(const Json& report, std::chrono::system_clock::time_point wall,
                 Clock::time_point now);
  /// Writes scalars_of(statistics) at the step of the program's last values. Does nothing before
  /// the first values.
  void on_statistics(const events::RankStatistics& statistics,
                     std::chrono::system_clock::time_point wall);
  /// Writes the lines of metrics.jsonl that have been read. Call it at intervals.
  void tick();
  /// Reads metrics.jsonl to its end, and waits until the event file is written. Call it once the
  /// programs have ended. Returns false after limit, or if metrics.jsonl cannot be read.
  [[nodiscard]] bool drain(std::chrono::milliseconds limit);
  /// Returns the first failure to write the event file. If there is none, or if an earlier call has
  /// returned it, returns the failure to read metrics.jsonl. Call it after drain().
  [[nodiscard]] std::optional<Error> take_failure();

 private:
  TensorboardLog(std::unique_ptr<BackgroundFile> file, bool is_restart, Clock::time_point now)
      : file_(std::move(file)), owes_restart_record_(is_restart), pace_(now) {}
  /// Makes `step` the step of the next values. Writes the restart_record() if it is owed.
  void begin_step(std::int64_t step, double wall_s);
  void push(std::vector<Scalar> scalars, double wall_s);

  std::unique_ptr<BackgroundFile> file_;
  std::unique_ptr<MetricsFollower> metrics_;  ///< nullptr: the values are those of the reports
  bool owes_restart_record_;                  ///< a restart_record() must precede the next values
  ReportPace pace_;
  std::optional<std::int64_t> step_;  ///< step of the program's last values
  std::set<std::string> tags_;
};

}  // namespace dlrun::agent
