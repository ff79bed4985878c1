#pragma once
// The state of lead's event loop during one attempt, or during one start of a component. Only
// run_attempt.cc (the course of the attempt), messages_to_lead.cc (the messages of ranks) and
// components_runner.h include this header.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/log.h"
#include "runtime/agent/address.h"
#include "runtime/agent/background_call.h"
#include "runtime/agent/background_file.h"
#include "runtime/agent/component_options.h"
#include "runtime/agent/file_broadcast.h"
#include "runtime/agent/idle_gpus.h"
#include "runtime/agent/later_attempt_watch.h"
#include "runtime/agent/messages.h"
#include "runtime/agent/rank_connections.h"
#include "runtime/agent/rewritten_file.h"
#include "runtime/agent/run_attempt.h"
#include "runtime/agent/sample_board.h"
#include "runtime/agent/step.h"
#include "runtime/agent/stop_early.h"
#include "runtime/agent/store_table.h"
#include "runtime/agent/tensorboard_log.h"
#include "runtime/agent/text_marks.h"

namespace dlrun::agent {

/// The facts that the runner of a component needs about its job. Every referenced object outlives
/// the runner.
struct ComponentContext {
  const ComponentOptions& options;
  RankConnections& connections;
  const std::vector<std::string>& addresses;  ///< lead's addresses
  /// The port of rank 0 in the component's previous start; 0: this is its first start.
  int held_port = 0;
  /// This is the first main component, so its progress is the progress of the run.
  bool is_first_main = true;
  std::function<std::vector<ComponentAddress>()> component_addresses{};  ///< see AttemptOutlet
};

/// Leads one attempt, or one start of a component: connects the event loop, the connections of the
/// ranks, the step and the signals with Attempt, which makes the decisions.
class AttemptRunner final : public AttemptOutlet,
                            public RankConnectionsHandler,
                            public StepHandler {
 public:
  using Clock = std::chrono::steady_clock;

  /// component: nullopt if the job has one program.
  explicit AttemptRunner(const AttemptContext& context,
                         std::optional<ComponentContext> component = std::nullopt)
      : component_(std::move(component)),
        options_(context.options),
        env_(context.env),
        identity_(context.identity),
        run_(context.run),
        events_(context.events),
        loop_(context.loop),
        out_(context.out),
        err_(context.err),
        signal_fd_(context.signal_fd),
        command_(context.command),
        controller_(context.controller),
        notifier_(context.notifier),
        child_not_to_kill_(context.child_not_to_kill),
        ends_before_limit_(context.ends_before_limit),
        on_success_before_srun_exits_(context.on_success_before_srun_exits) {}

  /// Leads the attempt of a job with one program.
  Result<AttemptEnd> run();

  // The course of a component, which ComponentsRunner drives. run() uses the same functions.
  /// Records the start and starts the step. Needs connections_.
  void begin();
  void on_signal(int signal);
  /// Collects child processes that have ended.
  void reap() {
    if (step_) step_->reap();
  }
  /// Calls tick() if the last call was at least kTickPause ago. Otherwise postpones the call until
  /// kTickPause is over: next_wait() then makes the loop return in time.
  void tick_or_postpone();
  /// Ends the attempt because a later one has begun elsewhere.
  void end_superseded(Clock::time_point now);
  /// Returns the time for which the event loop may wait before tick_or_postpone() is called again.
  [[nodiscard]] std::chrono::milliseconds next_wait() const;
  /// Writes the final ranks.json and the rest of the event file for TensorBoard. Waits at most one
  /// second for each of them. Call it once the attempt is over; do not call tick_or_postpone()
  /// afterwards.
  void write_last_samples() {
    write_samples(Clock::now(), true);
    close_tensorboard();
  }
  /// Passes on the rest of the step's output. Returns true once the step has ended.
  bool tick_step() {
    if (step_) step_->tick();
    return attempt_->step_is_over();
  }
  [[nodiscard]] Attempt& attempt() { return *attempt_; }

  // AttemptOutlet
  void send(int rank, const MessageToRank& message) override {
    if (peer_of_rank_.contains(rank)) send_text(rank, text_of(json_of(message)));
  }
  void send_text(int rank, std::string_view payload) override {
    if (const auto found = peer_of_rank_.find(rank); found != peer_of_rank_.end())
      connections_->send(found->second, payload);
  }
  void broadcast(const MessageToRank& message) override {
    const auto payload = text_of(json_of(message));
    std::vector<PeerId> peers;  // a copy, because send() may erase entries of peer_of_rank_
    for (const auto& [rank, peer] : peer_of_rank_) peers.push_back(peer);
    for (const auto peer : peers) connections_->send(peer, payload);
  }
  void record(const RunEvent& event) override {
    if (is_superseded_) return;
    events_.record(event, component_name());
    const auto* statistics = std::get_if<events::RankStatistics>(&event);
    if (tensorboard_ && statistics != nullptr)
      tensorboard_->on_statistics(*statistics, std::chrono::system_clock::now());
  }
  void say(std::string_view line) override {
    const auto text =
        component_ ? fmt::format("component {}: {}", component_name(), line) : std::string(line);
    log_info("said", {{"message", text}});
    err_.push(fmt::format("dlrun: {}\n", text));
  }
  std::vector<ComponentAddress> component_addresses() override {
    return component_ ? component_->component_addresses() : std::vector<ComponentAddress>{};
  }
  void stop_step(bool kills) override {
    if (step_) step_->stop(kills);
  }
  void begin_file_broadcast() override;

  // RankConnectionsHandler
  bool on_peer(PeerId peer, const RankIdentity& claimed) override;
  void on_message(PeerId peer, std::string_view payload) override;
  void on_lost(PeerId peer, std::string_view why) override;

  void on_too_few_descriptors(int error) override {
    attempt_->on_too_few_descriptors(too_few_descriptors_message(error), Clock::now());
  }

  // StepHandler
  void on_task_end(int rank, std::string_view host, int code, int signal) override {
    attempt_->on_task_end(rank, host.empty() ? std::string_view(host_) : host, code, signal,
                          Clock::now());
  }
  void on_cancel_reason(std::string_view reason) override { attempt_->on_cancel_reason(reason); }
  void on_out_of_memory() override { attempt_->on_out_of_memory(); }
  void on_launch_failure(std::string_view node, std::string_view why) override {
    attempt_->on_launch_failure(node, why, Clock::now());
  }
  void on_node_failure(std::string_view nodes) override;
  void on_unmarked_line(std::string_view line) override { attempt_->on_unmarked_line(line); }
  void on_srun_killed(int signal) override { attempt_->on_srun_killed(signal, Clock::now()); }
  void on_step_end(int code, std::string_view words) override {
    attempt_->on_step_end(code, words, Clock::now());
  }

 private:
  /// Opens the listening socket of a job with one program.
  Result<> start_listening();
  /// Returns the name of the component; empty if the job has one program.
  [[nodiscard]] std::string component_name() const {
    return component_ ? component_->options.name : std::string();
  }
  [[nodiscard]] bool is_service() const {
    return component_ && component_->options.role == ComponentRole::kService;
  }
  [[nodiscard]] AttemptOptions attempt_options() const;
  [[nodiscard]] std::filesystem::path log_folder() const;
  [[nodiscard]] Env step_env() const;
  [[nodiscard]] bool marks_stderr() const {
    return !options_.local_ranks && !rank_stderr_goes_to_files(command_, env_);
  }
  [[nodiscard]] std::string too_few_descriptors_message(int error) const;
  Result<> start_step();
  void run_round();  ///< one round of the event loop
  /// Waits for srun to end after a successful attempt. srun may learn of the ranks' ends later than
  /// lead, and may still hold output of the ranks.
  void wait_for_step_end();
  void take_signals();
  void ask_for_time_left();
  /// Returns the files to send to the nodes. Only the first attempt sends files: a later attempt
  /// finds the staged data, or has lost nodes, to which sbcast would still send.
  [[nodiscard]] std::vector<FileBroadcast> files_to_broadcast() const;
  void on_file_broadcast_end(const FileBroadcastResult& result);
  /// Asks the controller whether the nodes in reported_nodes_ have failed, and tells the attempt
  /// about the failed ones.
  void confirm_node_failure(Clock::time_point now);
  /// Decides whether a USR1 was the warning of the time limit. If Slurm has not answered, the USR1
  /// counts as the warning.
  void on_time_left(const Result<JobFacts>& facts);
  void close_local_log();
  void open_tensorboard();
  void close_tensorboard();
  void send_replies(const std::vector<StoreTable::Answer>& answers);

  /// The sender of a message, and the time when it arrived.
  struct Sender {
    int rank;
    PeerId peer;
    Clock::time_point now;
  };
  void handle(const Sender& from, to_lead::Hello& hello);
  void handle(const Sender& from, const to_lead::Beat& beat);
  void handle(const Sender& from, const to_lead::Suspended& suspended);
  void handle(const Sender& from, to_lead::Autopsy& autopsy);
  void handle(const Sender& from, const to_lead::Signal& signal);
  void handle(const Sender& from, const to_lead::Warning& warning);
  void handle(const Sender& from, const to_lead::DeviceOpenedByCheck& opened);
  void handle(const Sender& from, const to_lead::Checked& checked);
  void handle(const Sender& from, const to_lead::CheckFailed& failed);
  void handle(const Sender& from, const to_lead::Staged& staged);
  void handle(const Sender& from, const to_lead::Collected& collected);
  void handle(const Sender& from, const to_lead::Put& put);
  void handle(const Sender& from, const to_lead::Get& get);
  void handle(const Sender& from, const to_lead::Progress& progress);
  void handle(const Sender& from, const to_lead::TableRequest& request);
  void handle(const Sender& from, to_lead::Exit& exit);

  void tick(Clock::time_point now);
  /// Tells the attempt if this process was suspended since the last call, and for how long.
  void note_lead_suspension(Clock::time_point now);
  /// Prints and records failures to write the record and the log.
  void report_write_failures();
  void write_samples(Clock::time_point now, bool is_last);

  std::optional<ComponentContext> component_;
  const LeadOptions& options_;
  const Env& env_;
  const JobIdentity& identity_;
  const ClaimedRun& run_;
  EventLog& events_;
  EventLoop& loop_;
  Sink& out_;
  Sink& err_;
  int signal_fd_;
  const std::vector<std::string>& command_;
  const SlurmController* controller_;
  Notifier* notifier_;
  pid_t child_not_to_kill_;
  bool ends_before_limit_;
  const std::function<void(const AttemptEnd&)>& on_success_before_srun_exits_;
  std::string host_ = own_host();
  std::vector<std::string> addresses_;
  Key secret_{};
  std::unique_ptr<BackgroundFile> local_log_;
  std::unique_ptr<RankConnections> own_connections_;  ///< nullptr for a component
  RankConnections* connections_ = nullptr;
  std::unique_ptr<Attempt> attempt_;
  std::unique_ptr<LaterAttemptWatch> later_attempt_watch_;
  std::unique_ptr<StopEarly> stop_early_;
  std::unique_ptr<TensorboardLog> tensorboard_;  ///< nullptr: not wanted, or it cannot be written
  std::unique_ptr<Step> step_;
  BackgroundCall<Result<JobFacts>> job_query_;
  std::vector<FileBroadcast> files_to_broadcast_;  ///< files to send to the nodes before they stage
  BackgroundCall<FileBroadcastResult> file_broadcast_;
  int end_signal_count_ = 0;  ///< number of signals that asked for the end
  SampleBoard samples_{Clock::now()};
  IdleGpus idle_gpus_{options_.idle_gpu_after};
  std::unordered_map<int, std::string> host_of_rank_;
  bool programs_have_started_ = false;
  RewrittenFile ranks_file_{run_.directory /
                            (!component_ || component_->is_first_main
                                 ? std::string("ranks.json")
                                 : fmt::format("ranks-{}.json", component_->options.name))};
  StoreTable store_;
  std::unordered_map<PeerId, int> rank_of_peer_;
  std::unordered_map<int, PeerId> peer_of_rank_;
  /// The Slurm step of the ranks, as the first rank reported it. Ranks of other steps are refused.
  std::optional<std::string> step_id_;
  /// Nodes that srun reported as failed, and about which the controller has not been asked yet.
  std::string reported_nodes_;
  std::string asked_nodes_;  ///< nodes about which the controller is being asked
  BackgroundCall<Result<std::vector<std::string>>> node_query_;
  Clock::time_point next_question_{};  ///< when the controller may be asked again about nodes
  Clock::time_point next_beat_{};      ///< when the ranks get the next heartbeat
  /// When the latest message or tick was handled, for note_lead_suspension().
  Clock::time_point last_awake_ = Clock::now();
  std::size_t heard_beat_count_ = 0;  ///< heartbeats of ranks in this round of the loop
  Clock::time_point last_tick_{};     ///< the last call of tick()
  bool owes_tick_ = false;            ///< events were handled, and no tick has followed yet
  bool is_superseded_ = false;
};

}  // namespace dlrun::agent
