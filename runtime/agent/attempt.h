#pragma once
// One attempt of a run, from the first hello to the last exit record: what lead knows and decides.
// No I/O, no clock of its own: facts go in, words to ranks, events and sentences come out through
// AttemptOutlet. One thread.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/result.h"
#include "runtime/agent/autopsy_board.h"
#include "runtime/agent/container_words.h"
#include "runtime/agent/fitness.h"
#include "runtime/agent/hang_watch.h"
#include "runtime/agent/retry.h"
#include "runtime/bootstrap/world.h"

namespace dlrun::agent {

using Json = nlohmann::ordered_json;

/// What an attempt does to the world.
class AttemptOutlet {
 public:
  virtual ~AttemptOutlet() = default;
  virtual void send(int rank, const Json& message) = 0;
  /// A message that is text already.
  virtual void send_text(int rank, std::string_view payload) = 0;
  /// To every rank that is connected.
  virtual void broadcast(const Json& message) = 0;
  virtual void record(std::string_view event, const Json& fields) = 0;
  /// One line for people, without "dlrun: " and newline.
  virtual void say(std::string_view line) = 0;
  /// Ends the step: by its own means first, without mercy later.
  virtual void stop_step(bool without_mercy) = 0;
};

struct AttemptOptions {
  std::chrono::milliseconds join_timeout{600'000};
  bool forward_usr1 = false;
  int ranks = 0;  ///< how many will come; 0: the first hello says it
  std::string
      job_nodes{};  ///< Slurm's node list, to name nodes that no rank has joined from; may be empty
  std::optional<std::chrono::seconds> hang_after{};  ///< health.hang_after
  bool tries_collective = false;  ///< the ranks check nccl or gloo before their programs start
  bool has_autopsy = false;  ///< agents save their processes' stacks before a hung attempt is ended
  bool retries_timeout =
      false;  ///< retry.on has timeout: a program that leaves ahead of the limit comes again
  bool marks_errors =
      false;  ///< the agents mark what their programs write to standard error (text_marks.h)
};

/// What a rank says of itself.
struct Hello {
  World world{};
  std::string host{};
  std::string addr{};
  int pid = 0;
  int port = 0;  ///< held for its program; 0: none
  std::optional<std::chrono::milliseconds>
      time{};           ///< Unix time there, where the clock is to be checked
  std::string unfit{};  ///< why its node is not fit for the job

  [[nodiscard]] static Result<Hello> of_json(const Json& message);
};

/// How a program or an agent ended.
struct RankEnd {
  int code = 0;  ///< 128 + signal where a signal ended it
  int signal = 0;
  std::string error;  ///< in words, where the numbers do not say it
  std::optional<bool> is_own =
      {};  ///< it ended before anybody told it to; nothing: its agent does not say
  std::optional<int> of =
      {};  ///< the rank that it holds for the cause; -1: another, it cannot tell which
  bool is_unheard = false;  ///< its agent ended it because the agent no longer heard lead
};

struct FailedRank {
  int rank = 0;
  std::string host;
  int pid = 0;
  RankEnd end;
};

/// How an attempt ended.
struct AttemptEnd {
  int code = 0;
  std::string reason;  ///< ok, rank_failed, launch_failed, launcher_lost, join_timeout, signalled,
                       ///< hang, time_limit, node_failure, not_fit, idle_gpus, lead_unheard
  std::optional<FailedRank> first_failed;
  std::string message;  ///< a sentence for people
  bool is_cancelled = false;
  bool is_timeout =
      false;  ///< Slurm ended it at its time limit, or it ended before that to be requeued
  Cause cause = Cause::kNone;  ///< what that means for another start
  std::optional<std::int64_t>
      step;  ///< the furthest that the program reported: its step, else its epoch
  std::vector<std::string>
      suspects;  ///< nodes that are not heard of any more, or hold the process that hangs
  std::vector<std::string>
      lost_nodes;          ///< Slurm says so, or they are not fit, or silent in a run that hangs
  bool had_grace = false;  ///< a TERM to the ranks alone was taken for a preemption's grace time
  bool is_slurms_doing = false;  ///< Slurm ends the whole job, for the reason that is the cause
  bool is_requeued = false;      ///< Slurm queues the job again although the run is over
  bool is_whole_node_silent = false;  ///< a suspect's ranks are all gone, and nobody said how
  bool has_run = false;               ///< all ranks had joined, and their programs were started
};

class Attempt {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::milliseconds kCauseWait{
      700};  ///< for the launcher to say how a lost agent died
  static constexpr std::chrono::milliseconds kCulpritWait{
      200};  ///< for a rank whose end explains the first one's
  static constexpr std::chrono::milliseconds kMercy{
      1500};  ///< agents end their programs within 1 s
  static constexpr std::chrono::milliseconds kPatience{3000};  ///< then the step itself is killed
  static constexpr std::chrono::milliseconds kLastPatience{
      5000};  ///< from the second TERM to the end, whatever hangs
  static constexpr std::chrono::milliseconds kConnectionsLag{
      2000};  ///< connections may outlive the step by so much
  static constexpr std::chrono::milliseconds kLate{4500};  ///< a rank's beat, of every 3 s
  static constexpr std::chrono::milliseconds kMute{7500};  ///< two of them
  static constexpr std::chrono::seconds kStepLag{
      3};  ///< from the last record of success to the attempt's end

  /// outlet outlives the attempt.
  Attempt(AttemptOptions options, AttemptOutlet& outlet, Clock::time_point now);

  /// May a connection with this rank be made? Not twice.
  [[nodiscard]] bool wants(int rank) const;
  /// Fails when the rank contradicts what others have said; the attempt then fails too.
  void on_hello(int rank, const Hello& hello, Clock::time_point now);
  /// The rank's check of collectives has its device, and waits for the others.
  void on_checking(int rank) { arrived_.insert(rank); }
  /// The check is done, and its program starts.
  void on_checked(int rank, Clock::time_point now);
  /// is_own: the failure is this rank's, not one of meeting the others.
  void on_check_failed(int rank, std::string_view words, bool is_own, Clock::time_point now);
  void on_exit(int rank, RankEnd end, Clock::time_point now);
  /// The agent's connection is gone. Without an exit record before it the rank has failed.
  void on_lost(int rank, std::string_view why, Clock::time_point now);
  void on_rank_signal(int rank, int signal, Clock::time_point now);
  void on_own_signal(int signal, Clock::time_point now);
  void on_warning(int rank, std::string_view message);
  /// A rank asks where all are, from this one on. Answered once all have joined.
  void on_table(int rank, std::int64_t from);
  void on_progress(int rank, const Json& body, Clock::time_point now);
  /// What the launcher says of a task: srun in words, or the kernel of our own children.
  void on_task_end(int rank, std::string_view host, int code, int signal, Clock::time_point now);
  /// Slurm says why it ends the step ("TIME LIMIT"). Its signals arrive by other ways, before or
  /// after.
  void on_cancelled(std::string_view reason);
  /// Slurm says that processes of the step were killed for their memory.
  void on_out_of_memory() { is_out_of_memory_ = true; }
  /// Slurm could not start the step's tasks on node: the step ends.
  void on_launch_failure(std::string_view node, std::string_view why, Clock::time_point now);
  /// The controller has lost these nodes, a node list; their ranks may live on.
  void on_node_failure(std::string_view nodes, Clock::time_point now);
  /// Takes a line of the launcher's standard error that no rank wrote: pyxis, enroot and apptainer
  /// speak there.
  void on_foreign_line(std::string_view line);
  /// A rank's agent has seen its program stopped (SIGSTOP) for so long.
  void on_stopped(int rank, std::chrono::seconds stopped, Clock::time_point now);
  /// GPUs are paid for and not used: a warning, or the attempt's end.
  void on_idle_gpus(const std::string& sentence, bool ends, Clock::time_point now);
  /// A rank has saved where its processes stand. frames: its main thread's, the innermost first.
  void on_autopsy(int rank, std::vector<std::string> frames, Clock::time_point now);
  /// A rank has printed something since its last beat.
  void on_output(Clock::time_point now) { hang_watch_.on_output(now); }
  /// Any message of the rank's.
  void on_heard(int rank, Clock::time_point now);
  /// Notes that lead itself was stopped for this time. Call before handling messages that arrived
  /// meanwhile.
  void on_asleep(Clock::duration time, Clock::time_point now);
  /// The USR1 was a warning of the time limit.
  void on_limit_near() { is_limit_near_ = true; }
  /// And the job is to be requeued before it: ends when a checkpoint is saved, or within time_left.
  void on_limit_ahead(std::chrono::milliseconds time_left, Clock::time_point now);
  /// A signal ended the step's launcher, which nobody here has sent: its ranks end because of that.
  void on_launcher_killed(int signal, Clock::time_point now);
  /// The step is over. words: what the launcher has said, for the case that no rank ever came.
  void on_step_end(int code, std::string_view words, Clock::time_point now);
  /// Lead has no descriptor left for ranks that are still to come. message says so, and what to do.
  void on_full(std::string message, Clock::time_point now);
  /// The whole attempt is to end for a reason outside of it.
  void give_up(int code, std::string_view message, Clock::time_point now);

  void tick(Clock::time_point now);
  [[nodiscard]] std::optional<Clock::time_point> next_deadline() const;

  /// Returns true once the step has ended. A successful attempt may be over earlier: srun waits for
  /// the controller.
  [[nodiscard]] bool step_is_over() const { return step_is_over_; }
  /// All is said and recorded.
  [[nodiscard]] bool is_over() const { return phase_ == Phase::kOver; }
  [[nodiscard]] const AttemptEnd& end() const { return end_; }
  [[nodiscard]] int world_size() const { return size_; }

 private:
  enum class Phase { kJoining, kRunning, kAutopsy, kEnding, kOver };

  struct Rank {
    Hello hello;
    bool is_connected = false;
    std::optional<RankEnd> end;
    Clock::time_point heard{};
  };

  void start();
  void fail_rank(int rank, RankEnd end, bool cause_is_known, Clock::time_point now);
  /// The attempt ends because an agent is lost, and the launcher may still say how it died.
  [[nodiscard]] bool waits_for_launcher() const;
  /// A further end may explain the one that the attempt ends for: then it takes its place.
  void reconsider(FailedRank failed, bool cause_is_known, Clock::time_point now);
  void announce();
  /// Ends the attempt because an agent no longer heard lead and ended its program. No rank is to
  /// blame: lead was stopped, or the network was cut.
  void end_unheard(int rank, Clock::time_point now);
  /// step_signal: what was sent to the step and may still be on its way to other ranks; 0 for
  /// nothing.
  void begin_ending(Clock::time_point now, int step_signal = 0);
  void name_missing(Clock::time_point now);
  void finish_if_done(Clock::time_point now);
  void finish(Clock::time_point now);
  void record_failure(const FailedRank& failed);
  void blame_slurm();
  void blame_launch();
  /// A rank that never came fails for its container's reason, where that is known. True: now it is
  /// said so.
  bool blame_container();
  void end_for(std::string_view reason, int code, std::string message, Clock::time_point now);
  void end_for_stopped(Clock::time_point now);
  void end_for_hang(std::string sentence, Clock::time_point now);
  struct Silence {
    std::vector<int> ranks;          ///< their agents are not heard of any more
    std::vector<std::string> nodes;  ///< no agent of theirs is
    Clock::time_point since{};       ///< the last word of one of these ranks
    bool is_any_late = false;        ///< some rank may turn out to be silent, too
  };
  [[nodiscard]] Silence find_silence(Clock::time_point now) const;
  void begin_autopsy(Clock::time_point now);
  void look_at_autopsy(Clock::time_point now);
  [[nodiscard]] bool is_ending() const {
    return phase_ == Phase::kAutopsy || phase_ == Phase::kEnding;
  }
  void judge_fitness(Clock::time_point now);
  void lose_node(const std::string& host);
  void judge_zeros();
  [[nodiscard]] Cause cause() const;
  void find_suspects();
  void flush_progress(Clock::time_point now);
  /// Adds a final report to the result, which the record gets whole each time, at most once a
  /// second.
  void keep_result(const Json& body, Clock::time_point now);
  void flush_result(Clock::time_point now);
  [[nodiscard]] std::string host_of(int rank) const;
  [[nodiscard]] std::string sentence() const;
  [[nodiscard]] double seconds_since_start(Clock::time_point now) const;

  AttemptOptions options_;
  AttemptOutlet& outlet_;
  Phase phase_ = Phase::kJoining;
  Clock::time_point began_;
  Clock::time_point ending_since_{};
  std::optional<Clock::time_point> asked_again_at_;  ///< a second signal asked for the end
  int stops_asked_ = 0;
  std::map<int, Rank> ranks_;
  std::vector<std::string> table_;  ///< its pages, made when the first rank asks
  struct TaskEnd {
    std::string host;
    RankEnd end;
  };
  std::map<int, TaskEnd> task_ends_;  ///< from the launcher, of ranks that have no record
  std::vector<FailedRank>
      later_failures_;  ///< failed of themselves while the attempt was ending; bounded
  int size_ = 0;        ///< 0 until it is known
  int joined_ = 0;
  int ended_ = 0;  ///< ranks with an end
  bool step_is_over_ = false;
  int step_code_ = 0;
  std::string step_words_;
  std::optional<Clock::time_point> step_over_since_;
  std::optional<Clock::time_point> all_ended_since_;
  std::optional<Clock::time_point> announce_at_;  ///< a failure is known, its cause not yet
  std::set<int> signals_seen_;
  ContainerWords container_words_;
  std::string cancel_reason_;  ///< Slurm's own word for why it ends the step; empty: it gave none
  bool usr1_is_passed_ = false;
  Fitness fitness_;
  std::set<int> arrived_;  ///< at the check of collectives
  int checked_ = 0;
  HangWatch hang_watch_;
  std::optional<Clock::time_point>
      hang_since_;  ///< it is known; that some beats are late is waited out
  std::optional<Clock::time_point> hang_looked_at_;  ///< and looked at so seldom
  struct Stopped {
    int rank = -1;
    std::chrono::seconds time{};
    Clock::time_point heard{};
  };
  Stopped stopped_;                      ///< the last rank whose agent said so
  std::optional<AutopsyBoard> autopsy_;  ///< while the agents look, and afterwards
  Clock::time_point autopsy_until_{};
  struct Sleep {
    Clock::duration time{};
    Clock::time_point end{};
  };
  std::optional<Sleep> last_sleep_;  ///< when lead was last stopped
  bool is_out_of_memory_ = false;
  bool is_given_up_ = false;
  bool has_said_done_ = false;  ///< the program's word that there is nothing left to do
  bool is_preemption_near_ =
      false;                    ///< a TERM to the ranks alone was taken for a preemption's grace
  bool is_limit_near_ = false;  ///< the programs were warned of the time limit
  std::optional<Clock::time_point>
      limit_at_;  ///< when the attempt ends itself ahead of the time limit
  std::optional<std::int64_t> step_;
  std::set<std::string> unlaunched_;  ///< nodes where Slurm could not start the step's tasks
  std::set<int> lost_;                ///< ranks whose agents are gone, and nobody said how
  std::optional<Json> held_progress_;
  Clock::time_point last_progress_{};
  Json result_ = Json::object();
  bool is_result_held_ = false;
  Clock::time_point last_result_{};
  AttemptEnd end_;
};

}  // namespace dlrun::agent
