#pragma once
// One task's agent around its program: it joins lead, checks, starts the program, watches it and
// ends with it. rank.cc has what is one thing after another, rank_end.cc signals and ends. One
// thread, one event loop.

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/env.h"
#include "common/result.h"
#include "runtime/agent/address.h"
#include "runtime/agent/collective_check.h"
#include "runtime/agent/event_loop.h"
#include "runtime/agent/guard.h"
#include "runtime/agent/lead_connection.h"
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
  using Json = nlohmann::ordered_json;

  /// All of them outlive the rank.
  Rank(const RankOptions& options, Env env, const World& world, EventLoop& loop,
       const Guarded& guarded);

  /// To its end; the process's exit code.
  int run();

 private:
  // Everything of a rank that is one thing after another: join, start, run, end.
  Result<> join();
  void restore_tmpdir();
  void open_log();
  /// lead's word, or our own where there is no lead: all are there.
  void on_start(const std::string& addr, const std::string& master_addr, int master_port);
  void on_table(const Json& page);
  void start();
  Result<> start_check();
  void on_check_end(const Json& word);
  void start_program_of_user();
  Result<> launch_program();
  void on_progress(const Json& message);
  /// The heartbeat, with what is new of the program.
  [[nodiscard]] Json beat(Clock::time_point now);

  void on_message(std::string_view payload);
  void mark_errors();
  void begin_autopsy();
  void on_word(int signal, std::string_view word);
  void on_lead_closed();
  void take_signals();
  void on_signal(int signal, bool came_by_guard);
  void on_guard_gone();
  void reap();
  void on_program_end(int status);
  void record_exit(int code, int signal, std::string_view error);
  /// A TERM that was sent to the step may still be on its way to the program: it must not come
  /// twice.
  void begin_end(std::string_view why, bool term_is_under_way = false);
  /// The agent ends its program by itself, and says so in the exit record.
  void end_without_lead(std::string reason);
  void kill_what_is_left();
  void look_at_progress(bool is_last = false);
  /// A trusted program's word of why it ends; false where the message is none.
  [[nodiscard]] bool take_failure(const Json& message);
  void look_whether_stopped(Clock::time_point now, Clock::duration awake);
  void tick();
  [[nodiscard]] bool is_done();
  [[nodiscard]] std::chrono::milliseconds next_wait() const;
  void say(std::string_view line) {
    output_.say(fmt::format("dlrun: rank {} on {}: {}\n", world_.rank, host_, line));
  }
  void warn(const std::string& message);

  const RankOptions& options_;
  Env env_;
  World world_;
  EventLoop& loop_;
  const Guarded& guarded_;
  std::string host_;
  std::vector<std::string> node_problems_;  ///< health.preflight
  std::optional<std::string>
      tmpdir_problem_;  ///< why the program does not get the one that was asked for
  ProgramOutput output_;
  LeadConnection lead_;
  Listener
      held_;  ///< the port that is held for the program, of rank 0 or where the preset wants one
  TemplateFields fields_;  ///< known in full when the program starts
  std::optional<TableReader> table_;
  std::unique_ptr<StoreRelay> store_;
  std::optional<ProgressFile> progress_file_;
  ProgramReport report_;
  RankAutopsy autopsy_;

  std::unique_ptr<CollectiveCheck> check_;  ///< while it runs
  bool is_unfit_ = false;                   ///< it has failed; lead ends the attempt

  pid_t program_ = -1;
  bool has_started_ = false;
  std::optional<int> exit_code_;  ///< of the program, or ours; the rank is ending
  bool is_noted_ = false;
  bool is_told_ = false;  ///< lead, or the lease, has told the program to end
  struct ToldFailure {
    int of = -1;  ///< the rank whose failure it is; -1: another's, it cannot tell whose
    std::string words;
  };
  std::optional<ToldFailure> told_failure_;
  std::optional<Clock::time_point> ended_at_;  ///< exit_code_ was set
  std::optional<Clock::time_point> tree_gone_at_;
  int empty_looks_ = 0;     ///< in a row, after nothing that lives
  std::string own_reason_;  ///< why the agent itself ends the program, without a word of lead;
                            ///< empty: it does not
  std::optional<Clock::time_point> term_at_;     ///< SIGTERM to the tree, then
  std::optional<Clock::time_point> kill_at_;     ///< SIGKILL
  std::optional<Clock::time_point> word_until_;  ///< lead's word is awaited
  bool has_checkpointed_ = false;
  SignalPost signals_;
  Clock::time_point next_beat_{};
  Clock::time_point last_tick_ = Clock::now();
  Clock::duration lead_silent_{};  ///< awake time without a word of lead
  Clock::time_point next_look_{};
  Clock::duration stopped_{};  ///< for so long of our own awake time the program has been
};

}  // namespace dlrun::agent
