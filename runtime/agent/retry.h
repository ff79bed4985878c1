#pragma once
// Whether a run starts again: what ended an attempt, what the attempts before it have used up, and whether another one
// is worth it. No I/O, no clock.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace dlrun::agent {

/// What ended an attempt, in the words of `retry.on`; kNone is an end that nothing starts again after.
enum class Cause { kNone, kTimeout, kPreemption, kNodeFailure, kHang, kOom, kFailure, kRequeue };

/// "timeout", "preemption", "node_failure", "hang", "oom", "failure"; "requeue" (somebody asked Slurm for it), "none".
[[nodiscard]] std::string_view word(Cause cause);
[[nodiscard]] std::optional<Cause> cause_of_word(std::string_view word);

/// The lead's options about it, as the script gives them.
struct RetryOptions {
  int max = 0;           ///< restarts of the run, requeues among them; 0: none, and nothing of this file happens
  std::set<Cause> on{};  ///< the causes that are worth one
  int no_progress = 3;   ///< so many attempts in a row that got no further are enough
  bool excludes_bad_nodes = false;
  int min_nodes = 0;        ///< the spec allows so few nodes; 0: all of them are needed
  int signal_before_s = 0;  ///< seconds between the USR1 that announces the time limit, and the limit

  [[nodiscard]] bool is_on() const { return max > 0; }
};

/// "timeout,hang" as causes. Fails with kUsage for an empty or an unknown word.
[[nodiscard]] Result<std::set<Cause>> parse_causes(std::string_view text);

/// What the attempts of a run have come to so far.
class RetryHistory {
 public:
  /// An attempt is over. step: the furthest that it reported; nothing where it reported none. can_tell: that it
  /// reported none means that it got nowhere: no program was started, or it is one that reports from its first step on.
  void add_attempt(std::optional<std::int64_t> step, Cause cause, bool can_tell = false);
  /// One of the budget is used.
  void add_restart() { ++restarts_; }
  void add_bad_node(const std::string& node) { bad_nodes_.insert(node); }

  [[nodiscard]] int restarts() const { return restarts_; }
  /// Attempts in a row, up to the last one, that got no further than the best before them.
  [[nodiscard]] int fruitless() const { return fruitless_; }
  /// Its program has said how far it is.
  [[nodiscard]] bool has_reported() const { return best_step_.has_value(); }
  [[nodiscard]] const std::set<std::string>& bad_nodes() const { return bad_nodes_; }

 private:
  int restarts_ = 0;
  int fruitless_ = 0;
  std::optional<std::int64_t> best_step_;
  std::set<std::string> bad_nodes_;
};

/// How the attempt before this start of the job ended, as the record has it.
struct LastEnd {
  bool has_attempt = false;   ///< there was one
  bool is_announced = false;  ///< its restart is on the record: the budget was asked already
  Cause cause = Cause::kNone;
  int code = 0;
  std::int64_t attempt = 0;
};

struct RecordedHistory {
  RetryHistory history;
  LastEnd last;
};

/// Reads events.jsonl's text. An attempt without an end was lost with its node: kNodeFailure; one that Slurm ended with
/// a signal and started again was preempted. Lines of a later version are passed over. always_reports: the program
/// reports from its first step on.
[[nodiscard]] RecordedHistory read_history(std::string_view events, bool always_reports = false);

struct RetryDecision {
  bool restarts = false;
  int left = 0;                         ///< of the budget, after this restart
  bool is_last_unless_further = false;  ///< the next attempt that gets no further is the last
  std::string why;                      ///< why not, a clause for people; empty where nobody would expect a restart
};

/// history holds the attempt that has ended.
[[nodiscard]] RetryDecision decide_retry(const RetryOptions& options, const RetryHistory& history, Cause cause);

/// srun's words for a step on nodes alone: behind the first word of argv. tasks_per_node 0: one a node.
[[nodiscard]] std::vector<std::string> step_on_nodes(const std::vector<std::string>& argv,
                                                     const std::vector<std::string>& nodes, int tasks_per_node);

}  // namespace dlrun::agent
