#pragma once
// The agent of one task: joins lead, checks the node, starts the program, watches it, and ends with
// it. rank.cc has the course from joining to running, rank_end.cc signals and the end. One thread,
// one event loop.

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/env.h"
#include "common/log.h"
#include "common/result.h"
#include "runtime/agent/address.h"
#include "runtime/agent/collective_check.h"
#include "runtime/agent/event_loop.h"
#include "runtime/agent/guard.h"
#include "runtime/agent/lead_connection.h"
#include "runtime/agent/messages.h"
#include "runtime/agent/program_output.h"
#include "runtime/agent/program_report.h"
#include "runtime/agent/progress_file.h"
#include "runtime/agent/rank.h"
#include "runtime/agent/rank_autopsy.h"
#include "runtime/agent/rank_table.h"
#include "runtime/agent/signal_post.h"
#include "runtime/agent/store_relay.h"
#include "runtime/agent/template.h"
#include "runtime/bootstrap/world.h"

namespace dlrun::agent {

class Rank {
 public:
  using Clock = std::chrono::steady_clock;

  /// All referenced arguments must outlive the rank.
  Rank(const RankOptions& options, Env env, const World& world, EventLoop& loop,
       const Guarded& guarded);

  /// Runs until the program and all its processes have ended. Returns the exit code of the process.
  int run();

 private:
  // In the order of a rank's life: join, start, run, end.
  Result<> join();
  void restore_tmpdir();
  void open_log();
  /// Handles lead's message that all ranks have joined. Without a lead run() calls it directly.
  void on_start(const std::string& addr, const std::string& master_addr, int master_port);
  void on_table(const Json& page);
  void start();
  Result<> start_check();
  /// failure: nullopt if the check has passed.
  void on_check_end(const std::optional<to_lead::CheckFailed>& failure);
  void start_program_of_user();
  Result<> launch_program();
  /// Passes a message of the program on to lead.
  void on_program_message(const MessageToLead& message);
  void on_progress(const to_lead::Progress& progress);
  /// Returns the heartbeat, with news of the program.
  [[nodiscard]] to_lead::Beat beat(Clock::time_point now);

  void on_message(std::string_view payload);
  void mark_errors();
  void begin_autopsy();
  void handle(const to_rank::Start& start);
  void handle(const to_rank::Beat&) {}
  void handle(const to_rank::SignalAnswer& answer);
  void handle(const to_rank::Autopsy&) { begin_autopsy(); }
  void handle(const to_rank::End& end);
  void handle(const to_rank::Reply& reply);
  void handle(const to_rank::TablePage& page) { on_table(page.page); }
  void handle(const to_rank::Noted&) { is_noted_ = true; }
  void on_lead_closed();
  void take_signals();
  void on_signal(int signal, bool came_by_guard);
  void on_guard_gone();
  void reap();
  void on_program_end(int status);
  void record_exit(int code, int signal, std::string_view error);
  /// Begins to end the program: TERM now, KILL later. term_is_under_way: true if a TERM that was
  /// sent to the whole step may still reach the program, which must not get it twice.
  void begin_end(std::string_view why, bool term_is_under_way = false);
  /// Ends the program without an order from lead. The exit record contains the reason.
  void end_without_lead(std::string reason);
  void kill_what_is_left();
  void look_at_progress(bool is_last = false);
  /// Takes a trusted program's report of why it is about to fail. Returns false for other messages.
  [[nodiscard]] bool take_failure(const Json& body);
  void look_whether_stopped(Clock::time_point now, Clock::duration awake);
  void tick();
  [[nodiscard]] bool is_done();
  [[nodiscard]] std::chrono::milliseconds next_wait() const;
  void say(std::string_view line) {
    log_info("said", {{"message", line}});
    output_.say(fmt::format("dlrun: rank {} on {}: {}\n", world_.rank, host_, line));
  }
  void warn(const std::string& message);

  const RankOptions& options_;
  Env env_;
  World world_;
  EventLoop& loop_;
  const Guarded& guarded_;
  std::string host_;
  std::vector<std::string> node_problems_;  ///< failed checks of health.preflight
  /// The reason why the program does not get the TMPDIR that the spec asks for.
  std::optional<std::string> tmpdir_problem_;
  ProgramOutput output_;
  LeadConnection lead_;
  /// The port that is held for the program: on rank 0, and on each rank whose preset needs one.
  Listener held_;
  TemplateFields fields_;  ///< complete when the program starts
  std::optional<TableReader> table_;
  std::unique_ptr<StoreRelay> store_;
  std::optional<ProgressFile> progress_file_;
  ProgramReport report_;
  RankAutopsy autopsy_;

  std::unique_ptr<CollectiveCheck> check_;  ///< set while the check of collectives runs
  bool is_unfit_ = false;                   ///< the check has failed; lead ends the attempt

  pid_t program_ = -1;
  bool has_started_ = false;
  std::optional<int> exit_code_;  ///< of the program or of the agent; set once the rank is ending
  bool is_noted_ = false;         ///< lead has the exit record, or is gone
  bool is_told_ =
      false;  ///< the program was told to end, by lead or because lead is gone or silent
  struct ToldFailure {
    int rank = -1;  ///< the rank that failed; -1: another rank, the program cannot tell which
    std::string words;
  };
  std::optional<ToldFailure> told_failure_;
  std::optional<Clock::time_point> ended_at_;  ///< when exit_code_ was set
  std::optional<Clock::time_point> tree_gone_at_;
  int empty_looks_ = 0;  ///< number of looks in a row that found no living process
  /// The reason why the agent ends the program without an order from lead. Empty: it does not.
  std::string own_reason_;
  bool was_exiting_ = false;  ///< the program had begun to exit when it was told to end
  std::optional<Clock::time_point> term_at_;     ///< when all processes get SIGTERM
  std::optional<Clock::time_point> kill_at_;     ///< when all processes get SIGKILL
  std::optional<Clock::time_point> word_until_;  ///< deadline for lead's reply about a signal
  bool has_checkpointed_ = false;
  SignalPost signals_;
  Clock::time_point next_beat_{};
  Clock::time_point last_tick_ = Clock::now();
  /// Time without a message from lead. Does not count time in which this process was stopped.
  Clock::duration lead_silent_{};
  Clock::time_point next_look_{};
  /// Time for which the program has been stopped. Does not count time in which this process was.
  Clock::duration stopped_{};
};

}  // namespace dlrun::agent
