#pragma once
// Lead's requests to Slurm's controller: the state of nodes and of the job, a requeue of the job,
// the dependencies of the user's pending jobs, and the cancellation of pending jobs. The functions
// that parse answers are pure. Each call of a Slurm command blocks for at most
// SlurmController::kLimit. This is less than kLease, the time for which the agents wait for lead
// before they end their programs.

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

/// The facts of `scontrol show job` about a job.
struct JobFacts {
  std::string state{};   ///< scontrol's JobState; COMPLETING hides how the job ended
  std::string reason{};  ///< reason of the state, such as TimeLimit
  std::string partition{};
  std::string nodes{};              ///< the job's node list, without nodes that were lost
  std::string excluded{};           ///< nodes that the job must not get: a node list
  std::int64_t memory_mib = 0;      ///< requested memory; 0: unknown, or all of a node
  bool has_memory_per_cpu = false;  ///< memory_mib is for each CPU, otherwise for each node
  int restarts = 0;                 ///< number of requeues, including one that has just begun
  bool is_preempted = false;        ///< the grace time of a preemption has begun
  std::optional<std::int64_t> seconds_to_limit;  ///< nullopt: no limit, or unknown
};
/// Memory for the next start of a job.
struct JobMemory {
  std::int64_t mib = 0;
  bool is_per_cpu = false;
};

/// Parses the output of `scontrol show job`. now: seconds since the epoch. Times in the text are in
/// the local time zone.
[[nodiscard]] JobFacts parse_job(std::string_view scontrol_output, std::int64_t now);

/// Returns true if Slurm itself requeues a job that ends in the grace time of its preemption,
/// whatever its exit code. Slurm does so from 24.05 on, if the preemption mode is REQUEUE.
/// config_output, partition_output: what `scontrol show config` and `scontrol show partition`
/// print.
[[nodiscard]] bool requeues_preempted(std::string_view config_output,
                                      std::string_view partition_output);

/// Returns the nodes of the node list `nodes` that are in `bad`, or that Slurm has taken from the
/// job. If `job` has no nodes, because it ends or waits for its next start, only the nodes in `bad`
/// count.
[[nodiscard]] std::vector<std::string> lost_nodes(std::string_view nodes,
                                                  const std::vector<std::string>& bad,
                                                  const JobFacts& job);

/// Parses lines of `sinfo -h -N -o "%N %T"`. Returns the bad nodes: nodes that are down or failing,
/// do not answer the controller, or have the state error, unknown or future.
[[nodiscard]] std::vector<std::string> parse_bad_nodes(std::string_view text);

/// Asks Slurm's controller, slurmctld, with Slurm's commands. Functions fail with kNotFound if
/// Slurm does not know the job. They fail with kUnavailable if a command is missing, or ends with a
/// code other than 0 for another reason. Other failures are those of run_command().
class SlurmController {
 public:
  static constexpr std::chrono::milliseconds kLimit{5000};  ///< for each Slurm command

  /// job: Slurm's job id; for an array task ARRAYJOB_TASK, because a bare id means all tasks.
  SlurmController(Env env, std::string job);

  /// Returns the facts about the job.
  [[nodiscard]] Result<JobFacts> job() const;
  /// Returns the nodes of a node list that are bad by the rule of parse_bad_nodes().
  [[nodiscard]] Result<std::vector<std::string>> bad_nodes(const std::string& nodes) const;
  /// Returns the nodes of a node list that the job has lost.
  [[nodiscard]] Result<std::vector<std::string>> lost_nodes(const std::string& nodes) const;
  /// Returns true if Slurm itself will requeue the job after its end. Returns false if Slurm does
  /// not answer. was_preempted: the job was preempted in an earlier start; Slurm remembers that
  /// across requeues.
  [[nodiscard]] bool requeues_by_itself(bool was_preempted = false) const;
  /// Requeues the job. Slurm then ends the present start of the job. excluded: nodes to add to the
  /// job's list of nodes that it must not get; if Slurm does not report this list, the list
  /// stays unchanged. memory: the job's new memory; nullopt: unchanged. If the memory cannot be
  /// changed, cancels the job, which would run out of memory again, and fails with kRefused.
  [[nodiscard]] Result<> requeue(const std::vector<std::string>& excluded,
                                 const std::optional<JobMemory>& memory) const;
  /// Returns the dependencies of the user's pending jobs: the output of `squeue --format=%E`.
  [[nodiscard]] Result<std::string> dependencies_of_pending_jobs() const;
  /// Cancels each of these jobs that is still pending.
  [[nodiscard]] Result<> cancel_pending(const std::vector<std::string>& jobs) const;

 private:
  /// Returns the nodes that the job must not get.
  [[nodiscard]] Result<std::vector<std::string>> excluded_nodes() const;
  [[nodiscard]] Result<std::string> run_slurm_command(std::vector<std::string> argv) const;

  Env env_;
  std::string job_;
};

}  // namespace dlrun::agent
