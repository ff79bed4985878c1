#pragma once
// The state machine of one rank, from joining lead to the end of its last process. It decides when
// the program is told to end, which signals its processes get, what the exit record contains, and
// when the rank is done.
//
// The guard (guard.h) is the first process of the task and the parent of this agent; it passes
// signals on to the agent.
//
// The class has no I/O and no clock. The caller passes in facts with their time. Messages to lead,
// lines for the user and orders about processes go out through RankOutlet. Single-threaded.

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/agent/intervals.h"
#include "runtime/agent/messages.h"
#include "runtime/agent/signal_relay.h"

namespace dlrun::agent {

/// Carries out the decisions of a RankState.
class RankOutlet {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~RankOutlet() = default;
  /// Sends a message to lead. Does nothing if the connection is closed or was never made.
  virtual void send(const MessageToLead& message) = 0;
  /// Sends the heartbeat, with the new measurements of the program.
  virtual void send_beat(Clock::time_point now) = 0;
  /// Prints one line for the user.
  virtual void say(std::string_view line) = 0;
  /// Starts the program and calls on_program_start() or on_start_failure().
  virtual void start_program() = 0;
  /// Handles new reports of the program, and calls on_look().
  virtual void look_at_program() = 0;
  /// Sends a signal to the program's own process.
  virtual void signal_program(int signal) = 0;
  /// Sends SIGTERM to every process of the rank.
  virtual void end_processes() = 0;
  /// Sends SIGKILL to every process of the rank, and calls on_killed(). An attached profiler first
  /// gets time to write its result.
  virtual void kill_processes() = 0;
};

class RankState {
 public:
  using Clock = std::chrono::steady_clock;

  /// Time for lead's reply about a signal.
  static constexpr std::chrono::milliseconds kAnswerWait{2000};
  /// Time for a signal to reach all nodes of a step, which do not get it at the same moment.
  static constexpr std::chrono::milliseconds kTermArrivesWithin{200};
  /// Interval between two looks at the program.
  static constexpr std::chrono::milliseconds kLookEvery{1000};
  /// Time for which the program must be suspended (for example by SIGSTOP) before lead gets a
  /// report.
  static constexpr std::chrono::milliseconds kSuspensionReportedAfter{3000};
  /// Interval at which processes that are left are killed again.
  static constexpr std::chrono::milliseconds kKillEvery{20};
  /// Time from the exit record until the rank is done even if a process is left.
  static constexpr std::chrono::milliseconds kTreeLimit{5000};
  /// Longest wait for the rest of the output after the last process has ended.
  static constexpr std::chrono::milliseconds kPipesWait{2000};
  /// Longest wait for a slow reader of the output, from the exit record on.
  static constexpr std::chrono::milliseconds kOutputWait{60'000};
  /// Longest wait until the log is written, from the exit record on.
  static constexpr std::chrono::milliseconds kLogWait{10'000};

  /// outlet must outlive the state.
  RankState(RankOutlet& outlet, Clock::time_point now) : outlet_(outlet), last_tick_(now) {}

  /// Notes that lead has admitted the rank.
  void on_connected() { lead_.was_connected = lead_.is_open = true; }
  /// Notes that a message of lead has arrived, whatever its type.
  void on_heard() { lead_.silence = {}; }
  /// Returns true while the rank still waits for lead's order to start or for the address table.
  [[nodiscard]] bool awaits_start() const { return phase_ == Phase::kJoining; }
  /// Notes that the check of collectives, or else the program, is about to start.
  void on_start() { phase_ = Phase::kStarting; }
  /// Handles the result of the check of collectives. failure: nullopt if the check has passed; the
  /// program then starts.
  void on_check_end(const std::optional<to_lead::CheckFailed>& failure, Clock::time_point now);
  void on_program_start() { phase_ = Phase::kRunning; }
  /// Ends the rank because the agent cannot start its program.
  void on_start_failure(int code, std::string_view error, Clock::time_point now) {
    record_exit(code, 0, error, now);
  }

  /// Handles the program's report that a rank makes it fail. rank: -1 if the program does not know
  /// which rank. reason: the text of the report.
  void on_blame(int rank, std::string reason) { blame_ = {rank, std::move(reason)}; }
  /// Handles the result of RankOutlet::look_at_program().
  void on_look(bool is_suspended);
  /// Handles a signal that the agent received. came_by_guard: the guard passed the signal on;
  /// false: the signal came directly. Returns false if the signal is a copy of an earlier one,
  /// which the agent has already handled.
  bool on_signal(int signal, bool came_by_guard, Clock::time_point now);
  /// Handles lead's reply about a signal, or its order to save a checkpoint. decision: nullopt if
  /// this version does not know it.
  void on_answer(std::optional<SignalDecision> decision, Clock::time_point now);

  /// Handles lead's order to end. term_is_under_way: a TERM was sent to the whole step and may
  /// still reach the program, which must not get it twice. is_exiting: the program has begun to
  /// exit by itself. Lead's order may then be a consequence of this exit, because the program's
  /// connections close before waitpid() reports its end.
  void on_end(bool term_is_under_way, bool is_exiting, Clock::time_point now) {
    begin_end(term_is_under_way, is_exiting, now);
  }
  /// Notes that the connection to lead is closed. Ends the program. is_exiting: see on_end().
  void on_lead_closed(std::string_view why, bool is_exiting, Clock::time_point now);
  /// Handles the end of the guard: for srun, the task has then ended. Kills all processes of the
  /// rank.
  void on_guard_gone(Clock::time_point now);
  /// Handles the program's end. code: 128 + signal if a signal ended it. After SIGTERM, the report
  /// to lead waits up to SignalRelay::kTreeWait: if Slurm sends the signal to the agent as well,
  /// the agent first passes the signal on to lead.
  void on_program_end(int code, int signal, Clock::time_point now);
  /// Notes that lead has the exit record.
  void on_exit_confirmed() { is_exit_confirmed_ = true; }
  /// Handles the result of RankOutlet::kill_processes(). found_any: a living process was found.
  /// has_children: the agent still has a child process, living or not.
  void on_killed(bool found_any, bool has_children, Clock::time_point now);

  /// Takes all actions whose time has come. Call it at next_deadline(), and at least every 500 ms:
  /// next_deadline() does not include the times of heartbeats and of looks at the program.
  void tick(Clock::time_point now);
  /// Returns the time at which tick() is to be called next, if nothing else happens; nullopt: no
  /// deadline.
  [[nodiscard]] std::optional<Clock::time_point> next_deadline(Clock::time_point now) const;

  /// Makes the rank wait longer for lead's confirmation of the exit record. Slurm ends a step soon
  /// after a task has failed. Lead therefore confirms an exit record only when all nodes have
  /// copied their outputs, and the rank must wait for the confirmation.
  void wait_longer_for_confirmation(std::chrono::milliseconds time) { confirmed_within_ += time; }
  /// Returns true if no process of the program is left, or if kTreeLimit has passed since the exit
  /// record.
  [[nodiscard]] bool processes_are_gone_or_given_up(Clock::time_point now) const {
    return end_.tree_gone_at || (exit_ && now >= exit_->at + kTreeLimit);
  }
  /// Returns true if lead has been silent for longer than its lease.
  [[nodiscard]] bool lead_is_silent() const { return lead_.silence > kLease; }

  [[nodiscard]] bool is_running() const { return phase_ == Phase::kRunning; }
  /// Returns true once the program's processes are to be ended, or have ended.
  [[nodiscard]] bool is_ending() const { return end_.kill_at.has_value(); }
  /// Returns the exit code of the rank, once it is known.
  [[nodiscard]] std::optional<int> exit_code() const {
    return exit_ ? std::optional(exit_->code) : std::nullopt;
  }

  /// The state of the rank's output, its log, and the copies of its node's files.
  struct Output {
    bool is_held = false;   ///< the reader of the agent's own output has not taken all of it
    bool is_at_end = true;  ///< every process has closed its output
    bool log_is_drained = true;
    bool may_still_copy_outputs = false;  ///< the last copy has not ended
  };
  /// Returns true once the exit code is known, the outputs are copied, the processes are gone, the
  /// output is written, and lead has confirmed the exit record or is not connected. Each wait after
  /// the exit has a time limit. The caller limits the wait for the outputs.
  [[nodiscard]] bool is_done(const Output& output, Clock::time_point now) const;

 private:
  enum class Phase {
    kJoining,   ///< waits for lead's order to start, or for the address table
    kStarting,  ///< the check of collectives runs, or the program starts
    kUnfit,     ///< the check has failed; waits for lead's order to end
    kRunning,
    kOver,  ///< the exit code is known; processes and output may be left
  };

  void begin_end(bool term_is_under_way, bool is_exiting, Clock::time_point now);
  /// Returns the consequence of the loss of lead, as a clause for the user.
  [[nodiscard]] std::string_view consequence() const;
  /// Ends the program without an order from lead. The exit record contains the reason.
  void end_without_lead(std::string reason, Clock::time_point now);
  /// Records the program's exit that held_end_ contains, if it is set, and clears held_end_.
  void record_held_end(Clock::time_point now);
  void record_exit(int code, int signal, std::string_view error, Clock::time_point now);
  void check_program(Clock::time_point now, Clock::duration awake);
  void watch_lead(Clock::time_point now);
  /// Sends the signals that are due.
  void send_signals(Clock::time_point now);

  RankOutlet& outlet_;
  Phase phase_ = Phase::kJoining;
  Clock::time_point last_tick_;
  SignalRelay signals_;
  bool is_checkpoint_asked_ = false;  ///< the program was asked to save a checkpoint

  struct Lead {
    bool was_connected = false;  ///< there is or was a connection
    bool is_open = false;
    /// Time without a message. Does not count time in which this process was suspended.
    Clock::duration silence{};
    Clock::time_point next_beat{};
    std::optional<Clock::time_point> answer_until{};  ///< deadline for the reply about a signal
  };
  Lead lead_;

  struct Look {
    Clock::time_point next{};
    /// Time since the last look that found the program running. Does not count time in which the
    /// agent was suspended together with the program.
    Clock::duration suspended_time{};
  };
  Look look_;

  struct Blame {
    int rank = -1;
    std::string reason;
  };
  std::optional<Blame> blame_;

  /// The state from the decision to end the program until its last process has ended.
  struct End {
    bool is_requested = false;  ///< lead ordered the end, or the agent stopped hearing lead
    bool was_exiting = false;   ///< the program had begun to exit when its end was requested
    /// The reason why the agent ends the program without an order from lead. Empty: none.
    std::string own_reason{};
    std::optional<Clock::time_point> term_at{};  ///< when all processes get SIGTERM
    std::optional<Clock::time_point> kill_at{};  ///< when all processes get SIGKILL
    /// Number of calls of kill_processes() in a row that found no living process.
    int kills_without_process = 0;
    std::optional<Clock::time_point> tree_gone_at{};
  };
  End end_;

  /// The end of a program by a signal that may still reach the agent.
  struct HeldEnd {
    int code = 0;
    int signal = 0;
    Clock::time_point until{};  ///< when lead hears of the end at the latest
  };
  std::optional<HeldEnd> held_end_;

  struct Exit {
    int code = 0;
    Clock::time_point at{};
  };
  std::optional<Exit> exit_;
  bool is_exit_confirmed_ = false;  ///< lead has the exit record
  /// Longest wait for lead's confirmation of the exit record, from the exit record on.
  std::chrono::milliseconds confirmed_within_ = kExitConfirmedWithin;
};

}  // namespace dlrun::agent
