#pragma once
// The state machine of one attempt, from the start of its step until its end is recorded. It
// decides when the programs start, when the attempt ends, and which rank is to blame. Its files:
// - attempt.cc: ranks join, run and end; deadlines
// - attempt_signals.cc: signals
// - attempt_progress.cc: the program's reports
// - attempt_health.cc: checks, idle GPUs, suspended processes, hangs, early ends of sweep points
// - attempt_copies.cc: data that are copied to and from the nodes
// - attempt_autopsy.cc: the autopsy of a hang
// - attempt_blame.cc: the rank that is to blame for the end
// - attempt_end.cc: the end
// - attempt_judge.cc: the reason and the cause of the end, as pure functions
//
// The class has no I/O and no clock. The caller passes in facts with their time. Messages to ranks,
// events for the record and lines for the user go out through AttemptOutlet. Single-threaded.

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/result.h"
#include "common/run_events.h"
#include "runtime/agent/attempt_judge.h"
#include "runtime/agent/attempt_phases.h"
#include "runtime/agent/container_messages.h"
#include "runtime/agent/intervals.h"
#include "runtime/agent/members.h"
#include "runtime/agent/messages.h"
#include "runtime/agent/output_copy_board.h"
#include "runtime/agent/progress_recorder.h"
#include "runtime/agent/retry.h"

namespace dlrun::agent {

/// Carries out the decisions of an attempt: sends its messages, files and lines, records its
/// events, and stops its step. Also tells the attempt where components run. The caller
/// of Attempt implements this interface.
class AttemptOutlet {
 public:
  virtual ~AttemptOutlet() = default;
  /// Sends a message. Does nothing if the rank is not connected.
  virtual void send(int rank, const MessageToRank& message) = 0;
  /// Sends a message that is already serialized.
  virtual void send_text(int rank, std::string_view payload) = 0;
  /// Sends a message to every connected rank.
  virtual void broadcast(const MessageToRank& message) = 0;
  virtual void record(const RunEvent& event) = 0;
  /// Prints one line for the user. The line has neither the "dlrun: " prefix nor a newline.
  virtual void say(std::string_view line) = 0;
  /// Asks the step to end, or kills it.
  virtual void stop_step(bool kills) = 0;
  /// Begins to send the large files of `stage` to all nodes. When sbcast has ended for each file,
  /// even with a failure, the implementation must call Attempt::on_file_broadcast_end(). Called
  /// only if AttemptOptions::broadcasts_files is set.
  virtual void begin_file_broadcast() {}
  /// Returns the addresses of the components whose ranks have joined; empty if the job has no
  /// components.
  [[nodiscard]] virtual std::vector<ComponentAddress> component_addresses() { return {}; }
};

struct AttemptOptions {
  std::chrono::milliseconds join_timeout{600'000};
  bool forwards_usr1 = false;  ///< a USR1 makes the programs save a checkpoint
  int rank_count = 0;          ///< number of ranks; 0: taken from the first hello
  /// Slurm's node list, used to name the nodes from which no rank has joined. May be empty.
  std::string job_nodes{};
  std::optional<std::chrono::seconds> hang_after{};  ///< health.hang_after
  bool tries_collective = false;  ///< the ranks check collectives before their programs start
  /// The agents save their processes' stacks before a hung attempt is ended.
  bool makes_autopsy = false;
  /// retry.on contains `timeout`: the run restarts if its program exits after the warning of the
  /// time limit without a report that it is done.
  bool retries_timeout = false;
  /// The agents mark the text that their programs write to standard error (text_marks.h).
  bool marks_stderr = false;
  bool broadcasts_files = false;  ///< lead sends files to the nodes before their agents stage them
  bool is_component = false;      ///< the attempt is one component of a job with several
  /// The attempt is a service. A service that waits for requests does not hang.
  bool is_service = false;
  /// The attempt is a rehearsal: it ends successfully after its programs have run for this time.
  std::optional<std::chrono::seconds> rehearsal{};
};

using to_lead::Hello;

class Attempt {
 public:
  using Clock = std::chrono::steady_clock;

  /// Time for the step to report how a lost agent died.
  static constexpr std::chrono::milliseconds kStepReportWait{700};
  /// Time after the first failure in which another rank's end may turn out to be the real cause. It
  /// is longer than the time after which agents kill their programs, so that all ranks can report
  /// their ends: on a busy machine the rank that died first may report last.
  static constexpr std::chrono::milliseconds kCulpritWait =
      kKilledAfterTerm + std::chrono::milliseconds(200);
  /// Time after which the attempt is over even if its step still runs. It begins with the first
  /// signal that reaches lead while the attempt is ending.
  static constexpr std::chrono::milliseconds kStepGivenUpAfter{5000};
  /// Time for which connections may stay open after the step's end.
  static constexpr std::chrono::milliseconds kConnectionsLag{2000};
  /// Time after which a successful attempt is over even if srun still runs. It begins when all
  /// ranks have ended and their outputs are copied.
  static constexpr std::chrono::seconds kStepLag{3};

  /// outlet must outlive the attempt.
  Attempt(AttemptOptions options, AttemptOutlet& outlet, Clock::time_point now);

  /// Returns true if the rank may join: ranks are still joining, the rank has not said hello yet,
  /// and it is within the world or the size of the world is still unknown.
  [[nodiscard]] bool may_join(int rank) const;
  /// Handles the hello of a rank. If its rank or world size differs from the one that lead expects,
  /// the rank fails, and with it the attempt. A node that failed its checks also ends the attempt.
  /// Starts the programs once all ranks have joined and all nodes have their data.
  void on_hello(int rank, const Hello& hello, Clock::time_point now);
  /// Notes that the rank's check of collectives has opened its device and waits for the other
  /// ranks.
  void on_check_opened_device(int rank);
  /// Notes that the rank's check of collectives passed. Its program starts now. Once the checks of
  /// all ranks have passed, records that, and begins to watch the programs.
  void on_checked(int rank, Clock::time_point now);
  /// Handles a failed check of collectives. words: the reason. is_own: true if the rank itself
  /// failed, false if the communication between ranks failed.
  void on_check_failed(int rank, std::string_view words, bool is_own, Clock::time_point now);
  /// Tells the first rank of each node to copy the data. copies: see to_rank::Stage.
  void on_file_broadcast_end(const std::vector<std::string>& copies);
  /// Notes that the rank has copied the data of its node. Starts the programs once all nodes have
  /// their data.
  void on_staged(int rank, std::int64_t files, std::int64_t bytes, Clock::time_point now);
  /// Notes that the rank has copied the outputs of its node.
  void on_collected(int rank, std::int64_t files, std::int64_t bytes, Clock::time_point now);
  /// Returns the longest time that a node may need to copy its outputs; 0 without outputs.
  [[nodiscard]] std::chrono::seconds longest_output_copy() const {
    return outputs_.longest_limit();
  }
  /// Sets the time at which the attempt stops waiting for outputs, because the time limit of the
  /// job is near.
  void end_output_copies_by(Clock::time_point when) { outputs_.end_by(when); }
  /// Handles the exit record of a rank, and confirms it to the agent once the outputs are copied.
  void on_exit(int rank, RankEnd end, Clock::time_point now);
  /// Handles a closed connection of an agent. A rank without an exit record has failed.
  void on_lost(int rank, std::string_view why, Clock::time_point now);
  /// Handles a signal that reached the agent of a rank: the programs save a checkpoint, the attempt
  /// ends, or the signal has no effect. Sends the decision to the agent, which waits for it. Does
  /// nothing once the attempt is ending.
  void on_rank_signal(int rank, int signal, Clock::time_point now);
  /// Handles a signal that reached lead. USR1 asks for a checkpoint if
  /// AttemptOptions::forwards_usr1 is set and the programs run; otherwise, and for a service, it
  /// has no effect. Every other signal ends the attempt, or sets AttemptEnd::is_cancelled if the
  /// attempt is ending already.
  void on_lead_signal(int signal, Clock::time_point now);
  /// Prints and records a warning of a rank's agent.
  void on_warning(int rank, std::string_view message);
  /// Handles a request: sends the rank the page of the address table that begins with rank `from`.
  /// Does nothing before all ranks have joined, and after the attempt has begun to end.
  void on_table_request(int rank, std::int64_t from);
  /// Handles a progress report. Ignores the reports of ranks other than 0. body: an empty object
  /// only shows that the program is alive.
  void on_progress(int rank, const Json& body, Clock::time_point now);
  /// Handles the step's report of a task's end: a line of srun, or the wait status of a local child
  /// process.
  void on_task_end(int rank, std::string_view host, int code, int signal, Clock::time_point now);
  /// Notes Slurm's reason for ending the step ("TIME LIMIT"). The signal that Slurm sends with it
  /// arrives separately, earlier or later.
  void on_cancel_reason(std::string_view reason);
  /// Notes that Slurm reported an out-of-memory kill in the step.
  void on_out_of_memory() { signs_.is_out_of_memory = true; }
  /// Ends the attempt because Slurm could not start the step's tasks on node.
  void on_launch_failure(std::string_view node, std::string_view why, Clock::time_point now);
  /// Ends the attempt because Slurm's controller has lost these nodes (a node list). Their ranks
  /// may still be alive.
  void on_node_failure(std::string_view nodes, Clock::time_point now);
  /// Handles a line of srun's standard error without a mark, which no rank wrote: an error of
  /// pyxis, enroot or apptainer, for example.
  void on_unmarked_line(std::string_view line);
  /// Handles an agent's report that its program has been suspended (SIGSTOP) for the time
  /// `suspended`. Ends the attempt as a hang if this time is too long.
  void on_program_suspended(int rank, std::chrono::seconds suspended, Clock::time_point now);
  /// Handles GPUs that have been idle for too long. ends: true ends the attempt, false only
  /// warns. sentence: the message for the user.
  void on_idle_gpus(const std::string& sentence, bool ends, Clock::time_point now);
  /// Ends a point of a sweep because its results are worse than those of the other points. The run
  /// counts as completed. sentence: the message for the user.
  void on_stop_early(const std::string& sentence, Clock::time_point now);
  /// Handles a rank's answer to the autopsy request. frames: the stack of its main thread,
  /// innermost frame first.
  void on_autopsy(int rank, std::vector<std::string> frames, Clock::time_point now);
  /// Notes that a rank has printed something since its last heartbeat.
  void on_output(Clock::time_point now);
  /// Notes when a message of the rank arrived, whatever its type.
  void on_heard(int rank, Clock::time_point now);
  /// Notes that lead itself was suspended for `time`, which does not count as silence of the ranks.
  /// Call it before handling the messages that arrived during that time.
  void on_lead_suspended(Clock::duration time, Clock::time_point now);
  /// Notes that a USR1 to lead was Slurm's warning of the time limit.
  void on_limit_near() { signs_.is_limit_near = true; }
  /// Makes the attempt end when the next checkpoint is saved, and after time_to_save at the latest.
  /// The attempt thus ends before the time limit, and a requeued job, or the next job of the chain,
  /// can continue the run.
  void end_before_limit(std::chrono::milliseconds time_to_save, Clock::time_point now);
  /// Ends the attempt because srun was killed by a signal that lead did not send. The ranks end as
  /// a consequence.
  void on_srun_killed(int signal, Clock::time_point now);
  /// Notes the end of the step. words: srun's last messages. The message of the end contains them
  /// if no rank ever joined. A warning contains them if the step failed although all ranks ended
  /// with 0.
  void on_step_end(int code, std::string_view words, Clock::time_point now);
  /// Ends the attempt because lead has no file descriptor left for further ranks. message explains
  /// the limit and its remedy.
  void on_too_few_descriptors(std::string message, Clock::time_point now);
  /// Ends a component on purpose, with code 0. message: the reason, for the user.
  void stop(std::string message, Clock::time_point now);
  /// Ends a component that was not ready in time. message: the reason, for the user.
  void on_not_ready(std::string message, Clock::time_point now);
  /// Ends the attempt for a reason outside of it, such as a later attempt that superseded it.
  void give_up(int code, std::string_view message, Clock::time_point now);

  /// Handles all deadlines that have passed. Call it at next_deadline() at the latest.
  void tick(Clock::time_point now);
  /// Returns the time at which tick() is to be called next, if nothing else happens; nullopt: no
  /// deadline.
  [[nodiscard]] std::optional<Clock::time_point> next_deadline() const;

  /// Returns true once the step has ended. A successful attempt may be over earlier, while srun
  /// still waits for the controller.
  [[nodiscard]] bool step_is_over() const { return step_end_.has_value(); }
  /// Returns true once end() is final and recorded.
  [[nodiscard]] bool is_over() const { return is_in<Over>(); }
  [[nodiscard]] const AttemptEnd& end() const { return end_; }
  [[nodiscard]] int world_size() const { return members_.world_size; }
  /// Returns true once the time limit or a preemption is known to be near. All programs except
  /// services were then told to save a checkpoint.
  [[nodiscard]] bool is_warned() const { return signs_.is_limit_near || signs_.is_preemption_near; }
  /// Returns true until the end of the attempt is decided.
  [[nodiscard]] bool goes_on() const { return is_in<Joining>() || is_in<Running>(); }
  /// Returns where the ranks run, without the component's name; nullopt until the programs were
  /// told to start.
  [[nodiscard]] std::optional<ComponentAddress> address() const;

 private:
  using Joining = phase::Joining;
  using Running = phase::Running;
  using Examining = phase::Examining;
  using Ending = phase::Ending;
  using Over = phase::Over;

  template <typename Phase>
  [[nodiscard]] bool is_in() const {
    return std::holds_alternative<Phase>(phase_);
  }
  /// Returns the state of the phase; nullptr if the attempt is in another phase.
  template <typename Phase>
  [[nodiscard]] Phase* in() {
    return std::get_if<Phase>(&phase_);
  }
  template <typename Phase>
  [[nodiscard]] const Phase* in() const {
    return std::get_if<Phase>(&phase_);
  }
  [[nodiscard]] bool is_ending() const { return is_in<Examining>() || is_in<Ending>(); }

  /// Starts the programs if all ranks have joined and all nodes have their data.
  void start_if_ready(Clock::time_point now);
  /// Starts the watches of the programs: the time of a rehearsal, and the search for hangs. Checks
  /// of collectives must be over.
  void start_watches(phase::Running& running, Clock::time_point now);
  [[nodiscard]] bool all_have_joined() const {
    const auto* const joining = in<Joining>();
    return joining != nullptr && members_.world_size > 0 &&
           joining->joined_count >= members_.world_size;
  }
  /// Called when all ranks have joined, and again whenever a node has copied its data. Announces
  /// once that nodes still copy data, and begins to send files to them if
  /// AttemptOptions::broadcasts_files is set. Records the end of the copying once all nodes have
  /// their data.
  void follow_staging(phase::Joining& joining, Clock::time_point now);
  void advance_output_copies(Clock::time_point now);
  /// Tells the ranks to start their programs.
  void send_start();
  /// Returns the nodes of the ranks, in the order of ranks.
  [[nodiscard]] std::vector<std::string> hosts() const;
  /// Marks the rank as failed. The first failure ends the attempt; later failures go to
  /// reconsider(). If the rank's program blamed another rank, the failure counts as that rank's. A
  /// failure during the autopsy of a hang is not counted. is_end_known: false if the agent
  /// disappeared and the step may still report how it ended.
  void fail_rank(int rank, RankEnd end, bool is_end_known, Clock::time_point now);
  /// Announces the first failure now, or later if another failure may turn out to be its cause.
  void announce_now_or_later(const FailedRank& failed, bool is_end_known, Clock::time_point now);
  void announce_later(Clock::time_point when);
  /// Returns true while a later report may still change which failure is to blame.
  [[nodiscard]] bool is_in_doubt() const;
  /// Returns true while the attempt ends because of a lost agent and the step may still report
  /// how the agent died.
  [[nodiscard]] bool waits_for_step_report() const;
  /// Blames the later failure `failed` instead if it explains the failure for which the attempt
  /// ends.
  void reconsider(FailedRank failed, bool is_end_known, Clock::time_point now);
  /// Prints and records the failure for which the attempt ends.
  void announce();
  /// Drops the failure for which the attempt ends, because it turned out to be a consequence.
  void forget_failure();
  /// Ends the attempt because an agent no longer heard lead and ended its program. No rank is to
  /// blame: lead was suspended, or the network was cut.
  void end_for_unheard_lead(int rank, Clock::time_point now);
  /// Tells all ranks to end. step_signal: the signal that was sent to the whole step and may still
  /// be on its way to some ranks; 0: none.
  void begin_ending(Clock::time_point now, int step_signal = 0);
  void end_for(EndReason reason, int code, std::string message, Clock::time_point now);
  /// Tells all ranks, once, to have their programs save a checkpoint. The attempt no longer counts
  /// as hanging, because a program may save for a long time without a report. signal: the signal
  /// that asks for the checkpoint.
  void ask_for_checkpoint(int signal);
  void end_for_signal(int signal, std::string message, Clock::time_point now);
  void end_for_suspended_program(const phase::SuspendedProgram& suspended, Clock::time_point now);
  void end_for_hang(std::string sentence, Clock::time_point now);
  /// Makes the message about the ranks that have not joined, and records their numbers.
  void report_missing_ranks(Clock::time_point now);
  /// If a rank never joined and the container tool reported an error, makes this error the reason
  /// of the end, prints the message and returns true.
  bool report_container_failure();
  void judge_fitness(const NodeFitness& fitness, Clock::time_point now);
  void add_bad_node(const std::string& host);
  void begin_autopsy(Clock::time_point now);
  void finish_autopsy_if_done(Clock::time_point now);
  void look_at_running(Clock::time_point now);
  void stop_overdue_step(Clock::time_point now);
  void finish_if_done(Clock::time_point now);
  void end_if_step_is_over(Clock::time_point now);
  void finish_running_if_done(Clock::time_point now);
  void finish_ending_if_done(Clock::time_point now);
  /// Ends an attempt whose step ended before some of its ranks. Waits for connections that are
  /// still open, until kConnectionsLag has passed since the step's end.
  void finish_after_early_step_end(Clock::time_point now);
  void finish(Clock::time_point now);
  void record_failure(const FailedRank& failed);
  void record_progress(Clock::time_point now);
  /// Returns everything that is known about the end when the attempt is over.
  [[nodiscard]] EndFacts end_facts() const;
  [[nodiscard]] std::string sentence_on_first_failure() const;
  [[nodiscard]] double seconds_since_start(Clock::time_point now) const;
  /// Returns true if lead was suspended less than kStepReportWait ago. Lead then reads the messages
  /// that arrived during the suspension, one connection after another, so they may not be in the
  /// order in which the ranks sent them.
  [[nodiscard]] bool lead_was_just_suspended(Clock::time_point now) const {
    return last_lead_suspension_ && now < last_lead_suspension_->end + kStepReportWait;
  }

  AttemptOptions options_;
  AttemptOutlet& outlet_;
  Clock::time_point began_;
  /// Sending to a rank can detect a broken connection, which changes the phase. Therefore call in()
  /// again after each use of outlet_.
  std::variant<Joining, Running, Examining, Ending, Over> phase_;
  Members members_;

  struct Signals {
    std::set<int> recorded{};          ///< signals that any rank has received, each recorded once
    bool is_checkpoint_asked = false;  ///< the ranks were told to save a checkpoint
  };
  Signals signals_;

  struct StepEnd {
    int code = 0;
    std::string words;
    Clock::time_point at;
  };
  std::optional<StepEnd> step_end_;

  struct LeadSuspension {
    Clock::duration time{};
    Clock::time_point end{};
  };
  std::optional<LeadSuspension> last_lead_suspension_;

  OutputCopyBoard outputs_;
  /// Ranks whose exit record lead confirms (to_rank::ExitConfirmed) once the outputs are copied.
  std::vector<int> unconfirmed_;
  bool are_outputs_recorded_ = false;  ///< the last copy of the outputs is recorded

  ProgressRecorder progress_;
  ContainerMessages container_messages_;
  EndSigns signs_;
  AttemptEnd end_;
};

}  // namespace dlrun::agent
