#pragma once
// What lead asks of Slurm's controller: the state of nodes, the job's own end and nodes; that the
// job be queued again. Reading its answers is pure; asking blocks for at most kLimit, which is less
// than a rank's lease.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "common/result.h"

namespace dlrun::agent {

/// What `scontrol show job -o` says of a job.
struct JobFacts {
  std::string state{};   ///< as scontrol has it: COMPLETING hides which end it is
  std::string reason{};  ///< of that state, such as TimeLimit
  std::string partition{};
  std::string nodes{};        ///< as a node list; a node that was lost is not in it
  std::string excluded{};     ///< nodes that it must not get
  int restarts = 0;           ///< how often Slurm has queued it again; counted when it begins to
  bool is_preempted = false;  ///< its grace time has begun
  std::optional<std::int64_t> seconds_to_limit;  ///< nothing: no limit, or not told
};
/// now: seconds since the epoch, in whose time zone the answer is read.
[[nodiscard]] JobFacts parse_job(std::string_view text, std::int64_t now);

/// A job that ends in its preemption's grace time is queued again by Slurm itself, whatever its
/// exit code: from 24.05 on, where jobs are preempted by a requeue. config and partition: what
/// `scontrol show` says of both.
[[nodiscard]] bool requeues_preempted(std::string_view config, std::string_view partition);

/// Those of nodes (a node list) that are bad, or that the job has not got any more: Slurm has taken
/// them from it.
[[nodiscard]] std::vector<std::string> lost_nodes(std::string_view nodes,
                                                  const std::vector<std::string>& bad,
                                                  const JobFacts& job);

/// Lines of `sinfo -h -N -o "%N %T"` as nodes whose job has lost them: down, failing, or not
/// answering the controller.
[[nodiscard]] std::vector<std::string> parse_bad_nodes(std::string_view text);

class Controller {
 public:
  static constexpr std::chrono::milliseconds kLimit{5000};

  /// job: Slurm's id, ARRAYJOB_TASK of an array's task: a bare id would mean all of its tasks.
  Controller(Env env, std::string job);

  [[nodiscard]] Result<JobFacts> job() const;
  /// Those of the list that are bad.
  [[nodiscard]] Result<std::vector<std::string>> bad_nodes(const std::string& nodes) const;
  /// Those of the list that the job has lost.
  [[nodiscard]] Result<std::vector<std::string>> lost_nodes(const std::string& nodes) const;
  /// Slurm queues the job again by itself if it ends now; false also where nobody answers.
  /// was_preempted: in an earlier start, which Slurm does not forget when it queues the job again.
  [[nodiscard]] bool requeues_by_itself(bool was_preempted = false) const;
  /// Queues the job again, which also ends it here. excluded: nodes that it must not get.
  [[nodiscard]] Result<> requeue(const std::vector<std::string>& excluded) const;

 private:
  [[nodiscard]] Result<std::string> ask(std::vector<std::string> argv) const;

  Env env_;
  std::string job_;
};

}  // namespace dlrun::agent
