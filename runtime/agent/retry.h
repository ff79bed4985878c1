#pragma once
// Whether a run starts again: what ended an attempt, what the attempts before it have used up, and
// whether another one is worth it. No I/O, no clock.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace dlrun::agent {

/// What ended an attempt, in the words of `retry.on`; kNone is an end that nothing starts again
/// after.
enum class Cause {
  kNone,
  kTimeout,
  kPreemption,
  kNodeFailure,
  kHang,
  kOom,
  kFailure,
  kRequeue,
  kImage,
  kContainer
};

/// "timeout", "preemption", "node_failure", "hang", "oom", "failure"; "requeue" (somebody asked
/// Slurm for it), "image" and "container" (which no start can help), "none".
[[nodiscard]] std::string_view word(Cause cause);
[[nodiscard]] std::optional<Cause> cause_of_word(std::string_view word);

/// The lead's options about it, as the script gives them.
struct RetryOptions {
  int max =
      0;  ///< restarts of the run, requeues among them; 0: none, and nothing of this file happens
  std::set<Cause> on{};  ///< the causes that are worth one
  int no_progress = 3;   ///< so many attempts in a row that got no further are enough
  bool excludes_bad_nodes = false;
  int min_nodes = 0;  ///< the spec allows so few nodes; 0: all of them are needed
  int step_nodes =
      0;  ///< nodes of every attempt, where the allocation has spare ones; 0: it has none
  int signal_before_s =
      0;  ///< seconds between the USR1 that announces the time limit, and the limit

  [[nodiscard]] bool is_on() const { return max > 0; }
};

/// "timeout,hang" as causes. Fails with kUsage for an empty or an unknown word.
[[nodiscard]] Result<std::set<Cause>> parse_causes(std::string_view text);

/// What the attempts of a run have come to so far.
class RetryHistory {
 public:
  /// An attempt is over. step: the furthest that it reported; nothing where it reported none.
  /// can_tell: that it reported none means that it got nowhere: no program was started, or it is
  /// one that reports from its first step on.
  void add_attempt(std::optional<std::int64_t> step, Cause cause, bool can_tell = false);
  /// One of the budget is used.
  void add_restart() { ++restarts_; }
  /// The job was preempted in an attempt of this run.
  void add_preemption() { was_preempted_ = true; }
  void add_bad_node(const std::string& node) { bad_nodes_.insert(node); }

  [[nodiscard]] int restarts() const { return restarts_; }
  /// Attempts in a row, up to the last one, that got no further than the best before them.
  [[nodiscard]] int fruitless() const { return fruitless_; }
  /// Its program has said how far it is.
  [[nodiscard]] bool has_reported() const { return best_step_.has_value(); }
  [[nodiscard]] bool was_preempted() const { return was_preempted_; }
  [[nodiscard]] const std::set<std::string>& bad_nodes() const { return bad_nodes_; }

 private:
  int restarts_ = 0;
  int fruitless_ = 0;
  bool was_preempted_ = false;
  std::optional<std::int64_t> best_step_;
  std::set<std::string> bad_nodes_;
};

/// How the attempt before this start of the job ended, as the record has it.
struct LastEnd {
  bool has_attempt = false;   ///< there was one
  bool has_ended = false;     ///< so did the run, for all that its lead knew
  bool is_announced = false;  ///< its restart is on the record: the budget was asked already
  bool is_requeued = false;   ///< the run ended, and Slurm queued the job again all the same
  Cause cause = Cause::kNone;
  int code = 0;
  std::int64_t attempt = 0;
};

struct RecordedHistory {
  RetryHistory history;
  LastEnd last;
};

/// Reads events.jsonl's text. An attempt without an end was lost with its node: kNodeFailure; one
/// that Slurm ended with a signal and started again was preempted. Lines of a later version are
/// passed over. always_reports: the program reports from its first step on.
[[nodiscard]] RecordedHistory read_history(std::string_view events, bool always_reports = false);
/// Reads the history from a record of any size in bounded memory. The only function here that does
/// I/O.
[[nodiscard]] Result<RecordedHistory> read_history_file(const std::filesystem::path& events,
                                                        bool always_reports);

struct RetryDecision {
  bool restarts = false;
  int left = 0;                         ///< of the budget, after this restart
  bool is_last_unless_further = false;  ///< the next attempt that gets no further is the last
  std::string why;  ///< why not, a clause for people; empty where nobody would expect a restart
};

/// history holds the attempt that has ended.
[[nodiscard]] RetryDecision decide_retry(const RetryOptions& options, const RetryHistory& history,
                                         Cause cause);

/// "2(x3),1" as {2, 2, 2, 1}: tasks of a job's nodes, in their order. Nothing for other text, or
/// more than a million.
[[nodiscard]] std::optional<std::vector<int>> parse_tasks_per_node(std::string_view text);

/// A job's nodes and their tasks, by Slurm's environment.
struct JobLayout {
  std::vector<std::string> nodes{};  ///< SLURM_JOB_NODELIST
  std::vector<int>
      tasks{};  ///< SLURM_TASKS_PER_NODE, one for each of them; empty where it does not fit
  std::optional<int> tasks_per_node{};  ///< SLURM_NTASKS_PER_NODE
};

/// An srun line for a step on kept alone. Words of srun's own about nodes and their number are
/// replaced, wherever they stand; `--ntasks-per-node` is kept, and counts. tasks: those of the kept
/// nodes; one a node where the job says none.
[[nodiscard]] std::vector<std::string> step_on_nodes(const std::vector<std::string>& argv,
                                                     const JobLayout& job,
                                                     const std::vector<std::string>& kept);

}  // namespace dlrun::agent
