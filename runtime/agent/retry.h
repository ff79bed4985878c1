#pragma once
// Decides whether a run gets another attempt. The decision depends on the reason why the latest
// attempt ended, on the restarts that are left, and on the progress of the attempts so far. No
// clock; no I/O except in read_history_file().

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/record_words.h"
#include "common/result.h"

namespace dlrun::agent {

/// The options of `retry`, as the script passes them to lead.
struct RetryOptions {
  /// Largest number of restarts of the run, including requeues that no user asked for. 0 disables
  /// retries.
  int max = 0;
  std::set<Cause> on{};  ///< causes after which the run is retried
  int no_progress = 3;   ///< the run ends after this many attempts in a row without progress
  bool excludes_bad_nodes = false;
  int min_nodes = 0;  ///< fewest nodes that the spec allows; 0: all nodes are needed
  /// Number of nodes that each attempt uses if the allocation has spare nodes. 0: it has none.
  int step_nodes = 0;
  /// The factor by which the job's memory grows after the run ran out of memory; 0: it stays.
  double memory_factor = 0;
  std::int64_t memory_limit_mib = 0;  ///< the largest memory that the job may request
  int signal_before_s = 0;            ///< seconds from Slurm's USR1 warning to the time limit
  int chain = 0;  ///< jobs that work on the run one after another (retry.chain); 0: one job

  [[nodiscard]] bool is_enabled() const { return max > 0; }
};

/// Parses a list of causes such as "timeout,hang". Fails with kUsage for an empty or unknown cause.
[[nodiscard]] Result<std::set<Cause>> parse_causes(std::string_view text);

/// Restarts, progress and bad nodes of a run's attempts so far.
class RetryHistory {
 public:
  /// Adds a finished attempt. step: the highest step that it reported; nullopt if it reported none.
  /// cause: why it ended. no_step_means_no_progress: true if an attempt without a reported step
  /// certainly made no progress, because no program was started or because the program reports from
  /// its first step on. While no attempt has reported a step, an attempt counts as fruitless only
  /// if this flag is set and the program may have caused the end (failure, oom or hang).
  void add_attempt(std::optional<std::int64_t> step, Cause cause,
                   bool no_step_means_no_progress = false);
  /// Counts one restart against the budget.
  void add_restart() { ++restart_count_; }
  /// Notes that the job was preempted in an attempt of this run.
  void note_preemption() { was_preempted_ = true; }
  void add_bad_node(const std::string& node) { bad_nodes_.insert(node); }

  [[nodiscard]] int restart_count() const { return restart_count_; }
  /// Returns how many attempts in a row, up to the latest one, got no further than the best attempt
  /// before them.
  [[nodiscard]] int fruitless_count() const { return fruitless_count_; }
  /// Returns true if an attempt has reported a step.
  [[nodiscard]] bool has_reported_step() const { return best_step_.has_value(); }
  [[nodiscard]] bool was_preempted() const { return was_preempted_; }
  [[nodiscard]] const std::set<std::string>& bad_nodes() const { return bad_nodes_; }

 private:
  int restart_count_ = 0;
  int fruitless_count_ = 0;
  bool was_preempted_ = false;
  std::optional<std::int64_t> best_step_;
  std::set<std::string> bad_nodes_;
};

/// The last attempt before this start of the job, as recorded in events.jsonl.
struct LastAttempt {
  bool has_attempt = false;    ///< false: the record has no attempt
  bool run_has_ended = false;  ///< the record has the end of the run (`ended`)
  /// The record has `restarting`: the restart is counted already.
  bool is_restart_recorded = false;
  bool is_requeued_after_end = false;  ///< Slurm queued the job again although the run had ended
  /// If run_has_ended: the run ended with success (`completed`).
  bool run_is_completed = false;
  Cause cause = Cause::kNone;
  int code = 0;  ///< exit code
  std::int64_t attempt = 0;
};

struct RecordedHistory {
  RetryHistory history;
  LastAttempt last;
};

/// Reads the history from the text of events.jsonl. An attempt without an end counts as lost with
/// its node (kNodeFailure). An attempt that a signal ended without a known cause counts as
/// preempted, because Slurm has started the job again. Ignores unknown events.
/// reports_from_first_step: the program reports from its first step on, so an attempt without a
/// report made no progress.
[[nodiscard]] RecordedHistory read_history(std::string_view events,
                                           bool reports_from_first_step = false);
/// Reads the history from a record of any size in bounded memory. Fails as open_untrusted() does.
[[nodiscard]] Result<RecordedHistory> read_history_file(const std::filesystem::path& events,
                                                        bool reports_from_first_step);

struct RetryDecision {
  bool grants_restart = false;
  int left = 0;                      ///< restarts that are left after this decision
  bool next_needs_progress = false;  ///< the next attempt is the last unless it makes progress
  /// Why the run is not restarted; empty if it is restarted, or if no user would expect a restart.
  std::string why;
};

/// Decides whether the run restarts. history must already include the attempt that has ended.
[[nodiscard]] RetryDecision decide_retry(const RetryOptions& options, const RetryHistory& history,
                                         Cause cause);

/// Returns the memory of the next attempt after one that ran out of memory: the present memory
/// times the factor, at most the limit. Returns nullopt if the options do not let the memory grow,
/// if the limit is reached, or if the present memory is unknown (0).
[[nodiscard]] std::optional<std::int64_t> grown_memory(const RetryOptions& options,
                                                       std::int64_t present_mib);

}  // namespace dlrun::agent
