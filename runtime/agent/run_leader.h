#pragma once
// Leads the attempts of a run in this start of the job, one after another. Private to lead.cc.

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "runtime/agent/controller.h"
#include "runtime/agent/event_log.h"
#include "runtime/agent/lead.h"
#include "runtime/agent/notifier.h"
#include "runtime/agent/run_attempt.h"
#include "runtime/agent/run_claim.h"
#include "runtime/agent/sink.h"

namespace dlrun::agent {

/// The outputs of lead: the record, standard output and standard error; also the descriptor from
/// which signals to lead are read.
struct LeadOutputs {
  EventLoop& loop;
  EventLog& events;
  Sink& out;
  Sink& err;
  int signal_fd;
  Notifier* notifier = nullptr;  ///< nullptr: no notices, and no record on an MLflow server

  void say(std::string_view line) const;
  /// Waits until the record is on the disk. Returns false, after a message on err, if it is not.
  [[nodiscard]] bool wait_for_record() const;
  /// Waits until the notices that are left are sent, at most Notifier::kFinishLimit. Call it after
  /// the run's end is recorded. Later calls do nothing.
  void end_notices() const;
  /// Writes the rest of all outputs and returns code. Calls end_notices().
  int close(int code) const;
};

/// Returns the last 64 KiB of the job's log, which is the file to which this process's standard
/// error goes; empty if standard error is not a regular file.
[[nodiscard]] std::string tail_of_job_log();

/// Records the end of the run and removes its secrets.
void record_end(EventLog& events, const std::filesystem::path& run, const AttemptEnd& end);

class RunLeader {
 public:
  /// child_not_to_kill: a child of this process that does not belong to a step. The end of a step
  /// does not kill this child. -1: there is none.
  RunLeader(const LeadOptions& options, const Env& env, const JobIdentity& identity, ClaimedRun run,
            const LeadOutputs& outputs, pid_t child_not_to_kill, RetryHistory history)
      : options_(options),
        env_(env),
        identity_(identity),
        run_(std::move(run)),
        outputs_(outputs),
        events_(outputs.events),
        child_not_to_kill_(child_not_to_kill),
        history_(std::move(history)),
        command_(options.command) {
    if (!options.local_ranks) controller_.emplace(env, identity.job);
  }

  /// Leads the run and returns the exit code of the process.
  int run();
  void say(std::string_view line) const { outputs_.say(line); }

 private:
  /// How the run goes on after an attempt. kEnd: the run is over. kAttempt: lead starts another
  /// attempt in the allocation. kRequeue: lead asks Slurm to requeue the job. kSlurm: Slurm
  /// requeues the job by itself. kChain: this job ends, and the next job of the chain continues.
  enum class Next { kEnd, kAttempt, kRequeue, kSlurm, kChain };
  [[nodiscard]] static std::string_view word_of(Next next);
  struct Plan {
    Next next = Next::kEnd;
    Cause cause = Cause::kNone;
    std::vector<std::string> bad_nodes{};
    std::optional<JobMemory> memory{};  ///< the job's memory after a requeue, if it changes
  };

  /// Prints a message and returns true if a later attempt has begun elsewhere while this attempt
  /// waited for Slurm. Slurm restarts the job on other nodes if lead's node is cut off from the
  /// network.
  [[nodiscard]] bool report_if_superseded() const;
  [[nodiscard]] bool has_later_attempt() const;
  /// Writes the next attempt's number. Retries for one minute if the disk is full or the folder
  /// cannot be written.
  [[nodiscard]] Result<> write_next_attempt();
  /// Decides how the run goes on after the attempt. Records the restart if the run starts again;
  /// otherwise adds the reason, if there is one, to end.message. May change the code of a cancelled
  /// attempt.
  [[nodiscard]] Plan plan_after(AttemptEnd& end);
  /// Returns the cause of the end. Asks Slurm if the attempt was cancelled without a known reason,
  /// or if a preemption is only a guess. Sets end.is_slurms_doing if Slurm requeues the job.
  [[nodiscard]] Cause cause_according_to_slurm(AttemptEnd& end) const;
  /// Returns the nodes that Slurm considers bad. Waits for Slurm's verdict if a node is silent. If
  /// a signal ends this wait, returns no nodes and marks `end` as cancelled.
  [[nodiscard]] std::vector<std::string> ask_for_bad_nodes(AttemptEnd& end);
  /// Call it while the controller cannot be reached. Kills the processes that srun has left behind:
  /// srun's helper process would cancel the step as soon as it reaches the controller again. By
  /// then the job may run on other nodes, where its new step has the same number and would be
  /// cancelled.
  void kill_srun_leftovers() const;
  /// Returns the end of the sentence "the run starts again...", with a space before it, for a run
  /// that continues in another start of the job or in another job.
  [[nodiscard]] static std::string how_run_restarts(const Plan& plan);
  /// Records the restart and tells the user.
  void announce_restart(const Plan& plan, const RetryDecision& decision);
  /// Returns true, and adds the reason to end.message, if the present allocation belongs to another
  /// script or shell, and the run could continue only in a new one.
  [[nodiscard]] bool refuse_new_allocation(const Plan& plan, AttemptEnd& end) const;
  /// Returns how the run continues after this cause; kEnd if it cannot continue. Changes the
  /// command if the next attempt runs on fewer nodes of the allocation (RetryOptions::min_nodes).
  [[nodiscard]] Next choose_next(Cause cause, const std::vector<std::string>& bad_nodes);
  /// Returns the next job of the run's chain (retry.chain); nullopt if no later one may still run.
  [[nodiscard]] std::optional<std::string> next_in_chain() const;
  /// Returns why choose_next() has returned kEnd.
  [[nodiscard]] std::string_view why_not_continued(Cause cause) const;
  /// Cancels the later jobs of the run's chain, now that the run is over. A job that cannot be
  /// cancelled, or for which another job waits, ends as soon as it starts.
  void cancel_later_jobs() const;
  /// Makes the next attempt run on these nodes only, at most RetryOptions::step_nodes of them.
  void use_nodes(std::vector<std::string> nodes);
  /// Chooses the first attempt's nodes if the allocation has spare ones.
  void choose_nodes();
  /// Adds the nodes of bad_nodes_of(end) and bad_nodes_of_plan to the file of health.known_bad,
  /// which later submissions read.
  void remember_bad_nodes(const AttemptEnd& end, const std::vector<std::string>& bad_nodes_of_plan);
  /// If the run ran out of memory, and retry.grow is set, gives the next attempt more: sets
  /// plan.memory. Returns false, and adds the reason to end.message, if more memory is not
  /// possible, so that the next attempt would end in the same way. Returns true in all other cases.
  [[nodiscard]] bool plan_more_memory(Plan& plan, AttemptEnd& end) const;
  /// Asks Slurm to requeue the job. Returns true, after a wait of at most one minute, if Slurm
  /// queues the job again. Returns false, and adds the reason to end.message, if Slurm refuses; the
  /// caller then records the end of the run.
  bool requeue(AttemptEnd& end, const Plan& plan);
  /// Handles the end of an attempt whose step could not be launched. If Slurm is ending the job,
  /// changes `end` so that the job's end is its cause. Returns true if no end of the run may be
  /// recorded, because Slurm may queue the job again.
  [[nodiscard]] bool judge_failed_launch(AttemptEnd& end);
  /// Returns true if the controller must be asked whether Slurm queues the job again although the
  /// run has completed.
  [[nodiscard]] bool may_be_requeued(const AttemptEnd& end) const {
    return controller_ && !options_.uses_existing_allocation && end.code == 0 &&
           (end.had_grace || history_.was_preempted());
  }
  void record_end(const AttemptEnd& end) {
    agent::record_end(events_, run_.directory, end);
    is_over_ = true;
  }
  /// Completes the work that is left before lead exits: writes the record, cancels the later jobs
  /// of the chain if the run is over, sends the last notices, and writes the outputs. Returns code.
  int leave(int code);

  const LeadOptions& options_;
  const Env& env_;
  const JobIdentity& identity_;
  ClaimedRun run_;
  const LeadOutputs& outputs_;
  EventLog& events_;
  pid_t child_not_to_kill_;
  RetryHistory history_;
  bool is_over_ = false;  ///< the end of the run is recorded
  std::vector<std::string> command_;
  std::optional<SlurmController> controller_;
};

}  // namespace dlrun::agent
