#pragma once
// The agent of one task: connects the event loop, lead, the program and its processes with
// RankState, which makes the decisions. rank.cc implements the phases from joining to running;
// rank_end.cc handles signals and processes; rank_copies.cc copies data to and from the node. One
// thread, one event loop.

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/env.h"
#include "common/log.h"
#include "common/result.h"
#include "runtime/agent/address.h"
#include "runtime/agent/collective_check.h"
#include "runtime/agent/copy_items.h"
#include "runtime/agent/copy_process.h"
#include "runtime/agent/copy_report.h"
#include "runtime/agent/event_loop.h"
#include "runtime/agent/lead_connection.h"
#include "runtime/agent/messages.h"
#include "runtime/agent/program_meter.h"
#include "runtime/agent/program_output.h"
#include "runtime/agent/progress_file.h"
#include "runtime/agent/rank.h"
#include "runtime/agent/rank_autopsy.h"
#include "runtime/agent/rank_state.h"
#include "runtime/agent/rank_table.h"
#include "runtime/agent/staging.h"
#include "runtime/agent/store_relay.h"
#include "runtime/agent/template.h"
#include "runtime/bootstrap/world.h"

namespace dlrun::agent {

class RankRunner final : public RankOutlet {
 public:
  /// All referenced arguments must outlive the runner. signal_fd: a signalfd that stays open, from
  /// fork_into_guard_and_agent().
  RankRunner(const RankOptions& options, Env env, const World& world, EventLoop& loop,
             int signal_fd);

  /// Runs until the program and all its processes have ended. Returns the agent's exit code.
  int run();

  // RankOutlet
  void send(const MessageToLead& message) override;
  void send_beat(Clock::time_point now) override;
  void say(std::string_view line) override;
  void start_program() override;
  void look_at_program() override;
  void signal_program(int signal) override;
  void end_processes() override;
  void kill_processes() override;

 private:
  // The functions below are in the order of a rank's life: join, start, run, end.
  /// Fills fields_, sets a missing TMPDIR and holds the program's port. Prints a message and
  /// returns false if the program needs a port and none is free.
  [[nodiscard]] bool prepare();
  /// Checks the node, connects to lead and says hello. Returns an exit code if the rank ends here.
  [[nodiscard]] std::optional<int> join_lead();
  Result<> connect_and_say_hello();
  void open_log();
  /// Handles lead's order to start. Without lead, start_without_lead() calls it.
  void on_start(const std::string& addr, const std::string& master_addr, int master_port);
  void start_check_or_program();
  /// Starts the program if the rank has no lead.
  void start_without_lead();
  Result<> start_collective_check();
  Result<> launch_program();
  /// Passes a message of the program on to lead.
  void on_program_message(const MessageToLead& message);
  void on_progress(const to_lead::Progress& progress);
  void look_at_progress(bool is_last = false);
  /// Handles the report in which dlrun's trainer says which rank makes it fail. Returns false for
  /// other reports.
  [[nodiscard]] bool note_blame(const Json& body);

  void on_message(std::string_view payload);
  void mark_stderr();
  void begin_autopsy();
  /// Returns the folder of this attempt and component for one kind of file, such as "autopsy";
  /// empty if there is no run directory.
  [[nodiscard]] std::filesystem::path folder_of_attempt(std::string_view kind) const;
  void handle(const to_rank::Start& start);
  void handle(const to_rank::Beat&) {}
  void handle(const to_rank::SignalAnswer& answer) {
    state_.on_answer(answer.decision.value(), Clock::now());
  }
  void handle(const to_rank::Autopsy&) { begin_autopsy(); }
  void handle(const to_rank::End& end);
  void handle(const to_rank::Reply& reply);
  void handle(const to_rank::TablePage& page);
  void handle(const to_rank::ExitConfirmed&) { state_.on_exit_confirmed(); }
  void handle(const to_rank::Stage& message);
  void handle(const to_rank::Collect& message);
  /// Returns true if this rank copies the data of `stage` to its node.
  [[nodiscard]] bool stages_here() const {
    return world_.local_rank == 0 && !options_.stage.empty();
  }
  /// Returns true if this rank copies the outputs of its node.
  [[nodiscard]] bool copies_outputs_here() const {
    return world_.local_rank == 0 && !options_.outputs.empty();
  }
  /// Returns the longest time for copying all outputs once.
  [[nodiscard]] std::chrono::seconds collect_limit() const;
  /// Starts to copy the data to this node. broadcast_copies: see to_rank::Stage.
  void start_staging(const std::vector<std::string>& broadcast_copies = {});
  void on_staged(CopyReport report);
  /// Locks the staged data, and then tells lead that this node is ready. Without lead, starts the
  /// program instead. Tries again at the next tick while another run locks the data.
  void hold_staged_data();
  /// Checks that this rank sees the data that the first rank of its node has staged. Fails with
  /// kNotFound if it does not. Other failures are those of node_path().
  Result<> check_staged_data() const;
  void schedule_outputs(Clock::time_point now);
  /// Notes that the newest outputs may be incomplete, because a program has failed or was ended.
  /// since_end: time since that failure, or since the order to end the program.
  void note_incomplete_outputs(std::chrono::milliseconds since_end);
  /// Returns true while outputs may still be copied.
  [[nodiscard]] bool may_still_copy_outputs() const;
  void start_output_copy(const std::vector<OutputItem>& items, bool is_last, Clock::time_point now);
  void on_output_copy_end(const CopyReport& report);
  void tick_copies(Clock::time_point now);
  /// Handles the end of a copying process. Returns false if the child is no copying process.
  [[nodiscard]] bool on_copy_reaped(pid_t pid, int status);

  void on_lead_closed();
  void take_signals();
  /// Reaps the child processes that have ended.
  void reap();
  void on_program_end(int status);
  /// Ends the rank because the program cannot start.
  void give_up(int code, std::string_view why) { state_.on_start_failure(code, why, Clock::now()); }
  [[nodiscard]] bool program_is_exiting() const;
  void tick();
  [[nodiscard]] bool is_done() const;
  [[nodiscard]] std::chrono::milliseconds next_wait() const;
  void warn(const std::string& message);

  const RankOptions& options_;
  Env env_;
  World world_;
  EventLoop& loop_;
  int signal_fd_;
  std::string host_;
  std::vector<std::string> node_problems_;  ///< failed checks of health.preflight
  /// The reason why the program does not get the TMPDIR of the spec.
  std::optional<std::string> tmpdir_problem_;
  RankState state_;
  ProgramOutput output_;
  LeadConnection lead_;
  /// The port that is held for the program: on rank 0, and on each rank whose program needs one.
  BoundPort held_port_;
  TemplateValues fields_;  ///< complete when the program starts
  std::optional<TableReader> table_;
  std::unique_ptr<CollectiveCheck> check_;  ///< set while the check of collectives runs
  pid_t program_pid_ = -1;
  std::unique_ptr<StoreRelay> store_;
  std::optional<ProgressFile> progress_file_;
  ProgramMeter meter_;
  RankAutopsy autopsy_;

  static constexpr std::size_t kMostOutputWarnings = 64;
  CopyProcess staging_, output_copy_;
  CopyReport staging_report_;
  std::vector<UniqueFd> stage_locks_;  ///< locks of the staged data
  /// True from the end of the copying until all staged data are locked.
  bool awaits_locks_ = false;

  struct Outputs {
    bool program_has_started = false;
    /// When each item is copied next; nullopt: the item is copied only at the end.
    std::vector<std::optional<Clock::time_point>> due{};
    bool is_asked = false;      ///< lead asked for the last copy
    bool is_last = false;       ///< the present copy is the last one
    bool is_over = false;       ///< the last copy has ended
    Clock::time_point until{};  ///< when the present copy is killed
    std::optional<std::chrono::milliseconds> incomplete_since{};  ///< see CollectOptions
    std::set<std::string> reported_problems{};                    ///< each problem is reported once
  };
  Outputs outputs_;
  /// When the profiler must have written its result. Set if the program ends by itself while a
  /// profiler is attached to it.
  std::optional<Clock::time_point> profile_until_;
};

}  // namespace dlrun::agent
