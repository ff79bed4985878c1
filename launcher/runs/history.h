#pragma once
// A run's record in chronological order, for `top` and `report`, read from events.jsonl (see
// runtime/ENVIRONMENT.md).

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
#include "launcher/runs/run_record.h"

namespace dlrun {

/// The spread of a value over the ranks.
struct Spread {
  double least = 0, mean = 0, most = 0;
};

/// One `progress` event.
struct ProgressPoint {
  double t = 0;  ///< seconds since 1970
  std::int64_t attempt = 0;
  std::optional<std::int64_t> epoch, step;
  std::optional<double> loss, accuracy, samples_per_s;
};

/// One `samples` event (events::RankStatistics). cpu: busy cores. gpu: 0 to 100. work_ms:
/// milliseconds of a rank's own work on a step.
struct SamplesPoint {
  double t = 0;  ///< seconds since 1970
  std::int64_t attempt = 0, ranks = 0, slow_rank_count = 0;
  std::optional<Spread> cpu, rss_bytes, gpu, gpu_used_bytes, step, work_ms;
  std::optional<double> gpu_watts;  ///< the power of all GPUs together
};

/// A rank that was among the slowest when samples were recorded.
struct SlowRank {
  std::int64_t rank = 0;
  std::string host;
  std::size_t slow_count = 0;  ///< number of `samples` events that list the rank as slow
  double work_ms = 0;          ///< milliseconds, the largest value seen
  std::int64_t lag = 0;        ///< steps behind, the largest value seen
};

/// An event to display: any event except `progress` and `samples`.
struct ShownEvent {
  double t = 0;  ///< seconds since 1970
  std::int64_t attempt = 0;
  std::string kind;     ///< the event's name in events.jsonl, such as "rank_failed"
  std::string text;     ///< a description for people; any user may have written its parts
  bool is_bad = false;  ///< shown as a failure
  /// A rank exited after USR1, the warning of the time limit or of a preemption: no failure if
  /// another attempt follows.
  bool may_be_planned = false;
};

/// One attempt. Times are in seconds since 1970.
struct AttemptHistory {
  std::int64_t number = 0;       ///< from 0
  double begun = 0;              ///< the time of the attempt's first event, normally lead's claim
  std::optional<double> joined;  ///< the time at which all ranks had joined
  std::optional<double> ended;   ///< the time of the end; nullopt: it has not ended
  std::int64_t ranks = 0;        ///< number of ranks
  std::string job;         ///< id of the job; empty if lead restarted the ranks within the job
  std::string lead_host;   ///< the host of lead
  std::string hosts;       ///< the node list of the ranks
  Word<EndReason> reason;  ///< how the attempt ended; empty while it runs
  Word<Cause> cause;       ///< the class of this end (retry.on); the restart depends on it
  std::optional<std::int64_t> code;  ///< the exit code of the attempt
  bool has_successor = false;        ///< another attempt was announced or has begun
  /// Returns true if the attempt ended at the time limit, by a preemption or by a requeue, and
  /// another attempt follows. This end is not a failure.
  [[nodiscard]] bool has_planned_end() const {
    return has_successor &&
           (cause == Cause::kTimeout || cause == Cause::kPreemption || cause == Cause::kRequeue);
  }
};

/// The events in a run's events.jsonl, to which lead may still append. Memory is bounded: if there
/// are too many points, every second one is dropped; if there are too many events, those in the
/// middle are dropped.
class RunHistory {
 public:
  /// Reads the part of the run's file that was not read yet, and starts again if the file was cut
  /// or replaced. Skips the middle of a very large file (parts_to_read()). Returns true if it has
  /// read any bytes. A missing file counts as empty. One call reads at most some MiB; call it until
  /// it returns false.
  [[nodiscard]] Result<bool> read_more(const std::filesystem::path& run);
  /// Adds whole lines of the file.
  void add(std::string_view lines);

  /// Returns the summary of the parsed events, as sum_up_events() computes it.
  [[nodiscard]] const RunRecord& record() const { return record_; }
  [[nodiscard]] const std::vector<AttemptHistory>& attempts() const { return attempts_; }
  [[nodiscard]] const std::vector<ProgressPoint>& progress() const { return progress_; }
  [[nodiscard]] const std::vector<SamplesPoint>& samples() const { return samples_; }
  [[nodiscard]] const std::vector<ShownEvent>& events() const { return events_; }
  [[nodiscard]] const std::map<std::int64_t, SlowRank>& slow_ranks() const { return slow_ranks_; }
  [[nodiscard]] std::size_t events_left_out() const { return events_left_out_; }
  [[nodiscard]] std::size_t damaged_lines() const { return damaged_lines_; }
  /// Returns the number of bytes at the end that are not a whole line: the line is being written,
  /// or its writer was killed.
  [[nodiscard]] std::size_t unfinished_bytes() const { return unfinished_line_.size(); }

 private:
  void add(const RecordedEvent& recorded);
  void add_progress(const events::Progress& event, double t, std::int64_t attempt);
  void add_samples(const events::RankStatistics& event, double t, std::int64_t attempt);
  /// Returns the attempt with this number, and adds the attempt if it is new. t: the time of the
  /// event for which the attempt is needed. If there are too many attempts, returns the last one.
  AttemptHistory& find_or_add_attempt(std::int64_t number, double t);
  /// Marks that another attempt follows. A planned end of `attempt`, and the exit of a rank before
  /// it, are then no longer shown as failures.
  void note_successor(AttemptHistory& attempt);

  RunRecord record_;
  std::vector<AttemptHistory> attempts_;
  std::vector<ProgressPoint> progress_;
  std::vector<SamplesPoint> samples_;
  std::vector<ShownEvent> events_;
  std::map<std::int64_t, SlowRank> slow_ranks_;
  std::size_t events_left_out_ = 0, damaged_lines_ = 0;
  off_t offset_ = 0;
  ino_t inode_ = 0;
  RecordParts parts_;  ///< the parts of the file to read, chosen when reading began
  /// Only every stride_-th progress or samples event is parsed. stride_ is above 1 only while
  /// read_more() reads what a large file contained when reading began.
  std::size_t stride_ = 1;
  std::size_t frequent_line_count_ = 0;  ///< progress and samples events so far, parsed or not
  std::string unfinished_line_;
};

/// Returns the seconds until `steps` are done at the pace of about the last minute; nullopt if the
/// pace is not known, or if the program has done more than `steps`. now: seconds since 1970.
[[nodiscard]] std::optional<double> seconds_until_steps(const RunHistory& history,
                                                        std::int64_t steps, double now);

/// One line of metrics.jsonl.
struct MetricsPoint {
  double t = 0;  ///< seconds since 1970
  std::int64_t attempt = 0;
  std::optional<std::int64_t> epoch, step;
  std::optional<double> loss, accuracy, samples_per_s, test_loss, test_accuracy;
};
/// Reads the run's metrics.jsonl. Skips malformed lines, and most lines of a large file. Returns no
/// points if there is no file.
[[nodiscard]] Result<std::vector<MetricsPoint>> read_metrics(const std::filesystem::path& run);

}  // namespace dlrun
