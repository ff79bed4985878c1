#pragma once
// Judges the end of an attempt: finds its reason, its cause and the suspect nodes. Pure functions
// of the facts that the attempt has collected. No I/O, no clock.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/record_words.h"
#include "common/run_events.h"
#include "runtime/agent/container_messages.h"
#include "runtime/agent/messages.h"

namespace dlrun::agent {

struct FailedRank {
  int rank = 0;
  std::string host;
  int pid = 0;  ///< process id of the rank's agent; 0: the rank never joined
  RankEnd end;
};

struct AttemptEnd {
  int code = 0;
  EndReason reason = EndReason::kUndecided;
  std::optional<FailedRank> first_failed;
  std::string message;  ///< a sentence for the user
  /// A signal to lead or to a rank, or Slurm, ended the job, so that a retry within this job is
  /// pointless.
  bool is_cancelled = false;
  /// The attempt ended because of the time limit: Slurm ended it, or it ended earlier so that the
  /// job can be requeued.
  bool is_timeout = false;
  Cause cause = Cause::kNone;  ///< decides whether the run is retried
  /// The highest training step that the program reported, or the highest epoch if it reported no
  /// step.
  std::optional<std::int64_t> step;
  /// Nodes with an agent that disappeared without an exit record, and the node of a process that
  /// hangs.
  std::vector<std::string> suspects;
  /// Nodes that Slurm has lost, nodes on which it could not start tasks, nodes that failed a
  /// preflight check, and nodes that fell silent in a run that hangs.
  std::vector<std::string> bad_nodes;
  bool had_grace = false;  ///< see EndSigns::is_preemption_near
  /// A signal had announced that the time limit or a preemption was near.
  bool was_warned = false;
  bool is_slurms_doing = false;  ///< Slurm ends the whole job, and `cause` is its reason
  /// Slurm requeues the job although the run is over.
  bool is_requeued_after_end = false;
  bool is_whole_node_silent = false;  ///< all agents of at least one suspect node disappeared
  /// Nodes with a rank whose agent did not disappear.
  std::set<std::string> heard_hosts{};
  bool has_run = false;  ///< all ranks had joined and were told to start their programs
};

/// Observations during an attempt that may explain its end.
struct EndSigns {
  std::string cancel_reason{};    ///< Slurm's reason for ending the step; empty: none given
  bool is_out_of_memory = false;  ///< Slurm reported an out-of-memory kill in the step
  bool is_given_up = false;  ///< lead ended the attempt for a reason that would also end a retry
  bool has_reported_done = false;  ///< the program reported that its work is complete
  bool is_limit_near = false;      ///< Slurm's USR1 has announced the time limit
  /// A TERM reached a rank but not lead, and AttemptOptions::forwards_usr1 is set. The TERM counts
  /// as the start of a preemption's grace time.
  bool is_preemption_near = false;
  std::set<std::string> unlaunched{};  ///< nodes where Slurm could not start the step's tasks
};

/// Everything that is known when an attempt is over.
struct EndFacts {
  AttemptEnd end{};  ///< the end as decided while the attempt ran
  EndSigns signs{};
  int rank_count = 0;            ///< 0: unknown
  bool has_any_rank = false;     ///< at least one rank has joined
  bool retries_timeout = false;  ///< retry.on contains `timeout`
  std::string job_nodes{};       ///< Slurm's node list; may be empty
  std::optional<ContainerFailure> container_failure{};
  /// The hosts of ranks whose agents disappeared without an exit record.
  std::set<std::string> hosts_of_lost_ranks{};
  /// For each host, the number of its ranks that are not lost.
  std::map<std::string, int> not_lost_count_of_host{};
};

struct Judgement {
  AttemptEnd end{};
  std::vector<std::string> lines{};  ///< lines for the user, in order
};

/// Returns the final end of an attempt.
[[nodiscard]] Judgement judge(EndFacts facts);

/// Returns the event that records the end of an attempt. seconds: its duration.
[[nodiscard]] events::AttemptEnd recorded_end(const AttemptEnd& end, double seconds);

/// Makes the container the cause of the end if a rank never joined and the container tool reported
/// an error. Otherwise, or if the container is the cause already, returns false and changes
/// nothing.
bool blame_container(AttemptEnd& end, const std::optional<ContainerFailure>& failure);

}  // namespace dlrun::agent
