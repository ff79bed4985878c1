#pragma once
// A run's record in the order of time: what `top` and `report` draw. events.jsonl holds it
// (runtime/ENVIRONMENT.md).

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "common/run_events.h"
#include "launcher/runs/events.h"

namespace dlrun {

/// Seconds since 1970 of a timestamp of ours; nothing where the text is none.
[[nodiscard]] std::optional<double> seconds_of_utc(std::string_view utc);

/// Of a value over ranks.
struct Spread {
  double least = 0, mean = 0, most = 0;
};

struct ProgressPoint {
  double t = 0;  ///< seconds since 1970
  std::int64_t attempt = 0;
  std::optional<std::int64_t> epoch, step;
  std::optional<double> loss, accuracy, samples_per_s;
};

/// One `samples` event.
struct SamplesPoint {
  double t = 0;
  std::int64_t attempt = 0, ranks = 0, slow_ranks = 0;
  std::optional<Spread> cpu, rss_bytes, gpu, gpu_used_bytes, step, work_ms;
};

/// A rank that was among the slowest when samples were recorded.
struct SlowRank {
  std::int64_t rank = 0;
  std::string host;
  std::size_t times = 0;
  double work_ms = 0;    ///< the longest
  std::int64_t lag = 0;  ///< the most steps
};

/// An event for people: all but progress and samples.
struct NotedEvent {
  double t = 0;
  std::int64_t attempt = 0;
  std::string kind, text;
  bool is_bad = false;
};

struct AttemptHistory {
  std::int64_t number = 0;
  double claimed = 0;
  std::optional<double> joined, ended;
  std::int64_t ranks = 0;
  std::string job, host, hosts, reason, cause;
  std::optional<std::int64_t> code;
  bool is_followed = false;  ///< another attempt has been announced, or has begun
  /// It ended as jobs on a cluster do, its time being up or its nodes wanted, and the job was
  /// queued again: no failure.
  [[nodiscard]] bool was_queued_again() const {
    return is_followed && (cause == "timeout" || cause == "preemption" || cause == "requeue");
  }
};

/// Grows with the file. Bounded in memory: of very many points every second one is left out, of
/// events the middle.
class RunHistory {
 public:
  /// Takes what the run's file holds that was not taken yet; begins again where it was cut. True
  /// when something came. A missing file is an empty one. Reads at most some MiB: call until it is
  /// false to have all.
  [[nodiscard]] Result<bool> read_more(const std::filesystem::path& run);
  /// Whole lines.
  void add(std::string_view lines);

  /// The sum of it all, as sum_up_events() would make it.
  [[nodiscard]] const RunRecord& record() const { return record_; }
  [[nodiscard]] const std::vector<AttemptHistory>& attempts() const { return attempts_; }
  [[nodiscard]] const std::vector<ProgressPoint>& progress() const { return progress_; }
  [[nodiscard]] const std::vector<SamplesPoint>& samples() const { return samples_; }
  [[nodiscard]] const std::vector<NotedEvent>& events() const { return events_; }
  [[nodiscard]] const std::map<std::int64_t, SlowRank>& slow() const { return slow_; }
  [[nodiscard]] std::size_t events_left_out() const { return events_left_out_; }
  [[nodiscard]] std::size_t damaged_lines() const { return damaged_lines_; }
  /// Bytes at the end that are no whole line: one is being written, or its writer was killed.
  [[nodiscard]] std::size_t torn_bytes() const { return tail_.size(); }

 private:
  AttemptHistory& attempt_of(std::int64_t number, double t);
  /// Another attempt follows this one, which may make its end none of the bad events.
  void follow(AttemptHistory& attempt);

  RunRecord record_;
  std::vector<AttemptHistory> attempts_;
  std::vector<ProgressPoint> progress_;
  std::vector<SamplesPoint> samples_;
  std::vector<NotedEvent> events_;
  std::map<std::int64_t, SlowRank> slow_;
  std::size_t events_left_out_ = 0, damaged_lines_ = 0;
  off_t offset_ = 0;
  ino_t inode_ = 0;
  RecordParts parts_;       ///< of the file as it was when its reading began
  std::size_t stride_ = 1;  ///< of passing events so many count as one, in a record that is large
  std::size_t passes_seen_ = 0;
  std::string tail_;
};

/// Seconds until `steps` are done at the pace of the last minute or so; nothing while that is not
/// known.
[[nodiscard]] std::optional<double> time_left(const RunHistory& history, std::int64_t steps,
                                              double now);

/// One line of metrics.jsonl.
struct MetricsPoint {
  double t = 0;
  std::int64_t attempt = 0;
  std::optional<std::int64_t> epoch, step;
  std::optional<double> loss, accuracy, samples_per_s, test_loss, test_accuracy;
};
/// Lines that are none are passed over; no file: none.
[[nodiscard]] Result<std::vector<MetricsPoint>> read_metrics(const std::filesystem::path& run);

}  // namespace dlrun
