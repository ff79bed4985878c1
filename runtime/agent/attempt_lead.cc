// Lead's event loop during one attempt: it turns messages of ranks, lines of the step, signals and
// timers into calls of Attempt, and carries out what Attempt decides.
#include "runtime/agent/attempt_lead.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <unordered_map>

#include <nlohmann/json.hpp>

#include "common/bounded_json.h"
#include "common/files.h"
#include "common/hostlist.h"
#include "common/text.h"
#include "runtime/agent/address.h"
#include "runtime/agent/attempt_watch.h"
#include "runtime/agent/autopsy.h"
#include "runtime/agent/background_file.h"
#include "runtime/agent/beside.h"
#include "runtime/agent/gate.h"
#include "runtime/agent/idle_gpus.h"
#include "runtime/agent/node_check.h"
#include "runtime/agent/process_tree.h"
#include "runtime/agent/protocol.h"
#include "runtime/agent/sample_board.h"
#include "runtime/agent/snapshot_file.h"
#include "runtime/agent/step.h"
#include "runtime/agent/store.h"

namespace dlrun::agent {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kBeatEvery{3000};
constexpr milliseconds kTickEvery{500};
/// A longer time between two ticks means that this process was stopped.
constexpr milliseconds kAsleep{2000};
/// Slurm's USR1 may come this much too early: Slurm checks time limits twice a minute, and rounds.
constexpr std::chrono::seconds kSignalComesEarly{90};
/// Time from the order to end the ranks until Slurm has requeued the job.
constexpr std::chrono::seconds kRequeueTakes{15};
constexpr milliseconds kLastSnapshotLimit{1000};
constexpr std::chrono::seconds kStepLinger{90};
constexpr milliseconds kAskAgain{2000};
constexpr std::size_t kClaimedNodesLimitBytes = 16U << 10U;
constexpr std::size_t kAddressesLimit = 8;
constexpr std::size_t kOwnFiles = 64;
constexpr std::size_t kLocalLogQueueBytes = 4U << 20U;
constexpr milliseconds kLocalLogLimit{5000};  ///< time to write the rest of local.out
constexpr milliseconds kWaitLimit{24 * 3600 * 1000};

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string text(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::int64_t integer_or(const Json& object, std::string_view key, std::int64_t fallback) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>()
                                                             : fallback;
}

bool is_true(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

std::string own_host() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return host.data();
}

/// Returns the node list of the step: the nodes that lead chose, otherwise all nodes of the job.
std::string nodes_of_step(const std::vector<std::string>& command, const Env& env) {
  constexpr std::string_view kChosen = "--nodelist=";
  for (const auto& word : command) {
    if (word == "--" || word == "rank") break;
    if (word.starts_with(kChosen)) return word.substr(kChosen.size());
  }
  return env.get_or("SLURM_JOB_NODELIST", "");
}

bool tries_collective(const LeadOptions& options) {
  const auto checks = NodeChecks::parse(options.node_checks);
  return checks && !checks->collective.empty();
}

/// Leads one attempt: connects the event loop, the gate, the step and the signals with Attempt,
/// which makes the decisions.
class Lead final : public AttemptOutlet, public GateHandler, public StepHandler {
 public:
  explicit Lead(const AttemptPlace& place)
      : options_(place.options),
        env_(place.env),
        identity_(place.identity),
        run_(place.run),
        events_(place.events),
        loop_(place.loop),
        out_(place.out),
        err_(place.err),
        signal_fd_(place.signal_fd),
        command_(place.command),
        controller_(place.controller),
        bystander_(place.bystander),
        ends_before_limit_(place.ends_before_limit),
        on_early_end_(place.on_early_end) {}

  Result<AttemptEnd> lead_attempt();

  // AttemptOutlet
  void send(int rank, const Json& message) override {
    if (const auto found = peer_of_rank_.find(rank); found != peer_of_rank_.end())
      gate_->send(found->second, dump(message));
  }
  void send_text(int rank, std::string_view payload) override {
    if (const auto found = peer_of_rank_.find(rank); found != peer_of_rank_.end())
      gate_->send(found->second, payload);
  }
  void broadcast(const Json& message) override {
    const auto payload = dump(message);
    std::vector<PeerId> peers;  // a copy, because send() may erase entries of peer_of_rank_
    for (const auto& [rank, peer] : peer_of_rank_) peers.push_back(peer);
    for (const auto peer : peers) gate_->send(peer, payload);
  }
  void record(std::string_view event, const Json& fields) override {
    if (!is_superseded_) events_.record(event, fields);
  }
  void say(std::string_view line) override { err_.push(fmt::format("dlrun: {}\n", line)); }
  void stop_step(bool without_mercy) override {
    if (step_) step_->stop(without_mercy);
  }

  // GateHandler
  bool on_peer(PeerId peer, const Claim& claim) override;
  void on_message(PeerId peer, std::string_view payload) override;
  void on_lost(PeerId peer, std::string_view why) override;

  void on_full(int error) override { attempt_->on_full(too_few_files(error), Clock::now()); }

  // StepHandler
  void on_task_end(int rank, std::string_view host, int code, int signal) override {
    attempt_->on_task_end(rank, host.empty() ? std::string_view(host_) : host, code, signal,
                          Clock::now());
  }
  void on_cancelled(std::string_view reason) override { attempt_->on_cancelled(reason); }
  void on_out_of_memory() override { attempt_->on_out_of_memory(); }
  void on_launch_failure(std::string_view node, std::string_view why) override {
    attempt_->on_launch_failure(node, why, Clock::now());
  }
  void on_node_failure(std::string_view nodes) override {
    if (claimed_nodes_.size() < kClaimedNodesLimitBytes)
      claimed_nodes_ += fmt::format("{}{}", claimed_nodes_.empty() ? "" : ",", nodes);
  }
  void on_foreign_line(std::string_view line) override { attempt_->on_foreign_line(line); }
  void on_launcher_killed(int signal) override {
    attempt_->on_launcher_killed(signal, Clock::now());
  }
  void on_step_end(int code, std::string_view words) override {
    attempt_->on_step_end(code, words, Clock::now());
  }

 private:
  [[nodiscard]] Env step_env() const;
  [[nodiscard]] bool marks_errors() const {
    return !options_.local && !ranks_errors_go_elsewhere(command_, env_);
  }
  [[nodiscard]] std::string too_few_files(int error) const;
  Result<> start_step();
  /// Waits after a success for srun to end. srun may not know yet that its ranks have ended, and it
  /// may still hold text of theirs.
  void wait_for_step();
  void take_signals();
  void look_at_limit();
  /// Asks the controller whether the nodes that srun named have failed, and tells the attempt which
  /// ones have.
  void confirm_node_failure(Clock::time_point now);
  void on_limit_known(const Result<JobFacts>& facts);
  void close_local_log();
  void answer(const std::vector<Store::Answer>& answers);
  void on_hello(int rank, PeerId peer, const Json& message);
  void tick();
  /// Tells the attempt when this process was stopped since the last call.
  void note_sleep(Clock::time_point now);
  void write_samples(Clock::time_point now, bool is_last);
  [[nodiscard]] milliseconds next_wait() const;

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
  const Controller* controller_;
  pid_t bystander_;
  bool ends_before_limit_;
  const std::function<void(const AttemptEnd&)>& on_early_end_;
  std::string host_ = own_host();
  std::vector<std::string> addresses_;
  Key secret_{};
  std::unique_ptr<BackgroundFile> local_log_;
  std::unique_ptr<Gate> gate_;
  std::unique_ptr<Attempt> attempt_;
  std::unique_ptr<AttemptWatch> watch_;
  std::unique_ptr<Step> step_;
  Beside<Result<JobFacts>> limit_;
  int ends_asked_ = 0;  ///< number of signals that asked for the end
  SampleBoard samples_{Clock::now()};
  IdleGpus idle_gpus_{options_.idle_gpu_after};
  std::unordered_map<int, std::string> host_of_rank_;
  bool has_begun_ = false;  ///< the ranks' programs have been started
  SnapshotFile ranks_file_{run_.directory / "ranks.json"};
  Store store_;
  std::unordered_map<PeerId, int> rank_of_peer_;
  std::unordered_map<int, PeerId> peer_of_rank_;
  std::optional<std::string> step_name_;  ///< from the first claim; all ranks must have the same
  /// Nodes that srun reported as failed and the controller was not asked about yet.
  std::string claimed_nodes_;
  std::string asked_nodes_;  ///< nodes about which the controller is being asked
  Beside<Result<std::vector<std::string>>> lost_nodes_;
  Clock::time_point next_question_{};
  Clock::time_point next_beat_{};
  Clock::time_point last_tick_ = Clock::now();
  bool is_superseded_ = false;
};

Result<AttemptEnd> Lead::lead_attempt() {
  secret_ = random_key();
  auto listener = listen_on_free_port(options_.local.has_value());
  if (!listener) return tl::unexpected<Error>(std::move(listener.error()));
  gate_ = std::make_unique<Gate>(loop_, *this, std::move(*listener), secret_);
  addresses_ = options_.local ? std::vector<std::string>{} : own_addresses();
  if (addresses_.empty()) addresses_.emplace_back("127.0.0.1");
  if (addresses_.size() > kAddressesLimit) addresses_.resize(kAddressesLimit);

  const auto job_nodes = options_.local ? std::string() : nodes_of_step(command_, env_);
  attempt_ = std::make_unique<Attempt>(
      AttemptOptions{options_.join_timeout, options_.forward_usr1, options_.local.value_or(0),
                     job_nodes, options_.hang_after, tries_collective(options_), true,
                     options_.retry.is_on() && options_.retry.on.contains(Cause::kTimeout),
                     marks_errors()},
      *this, Clock::now());
  const auto env = step_env();
  Json fields{
      {"ranks", options_.local.value_or(0)}, {"lead", *env.get("DLRUN_LEAD")}, {"argv", command_}};
  if (!options_.node_checks.empty()) fields["checks"] = options_.node_checks;
  record("started", fields);
  if (auto made = make_private_directories(run_.directory / "logs" /
                                           fmt::format("attempt-{}", run_.attempt));
      !made) {
    say(made.error().message);
    record("warning", {{"message", made.error().message}});
  }
  const auto signals = loop_.watch(signal_fd_, EPOLLIN, [this](std::uint32_t) { take_signals(); });
  if (auto started = start_step(); !started)
    attempt_->on_step_end(exit_code_of(started.error()), started.error().message, Clock::now());
  if (!options_.local) watch_ = std::make_unique<AttemptWatch>(run_.directory, run_.attempt);
  while (!attempt_->is_over()) {
    loop_.run_once(next_wait());
    tick();
  }
  write_samples(Clock::now(), true);
  wait_for_step();
  step_.reset();
  close_local_log();
  if (signals) loop_.unwatch(*signals);
  return attempt_->end();
}

void Lead::wait_for_step() {
  if (!step_ || attempt_->step_is_over() || attempt_->end().code != 0) return;
  on_early_end_(attempt_->end());
  const auto until = Clock::now() + kStepLinger;
  while (!attempt_->step_is_over() && Clock::now() < until && ends_asked_ < 2) {
    loop_.run_once(kTickEvery);
    step_->tick();
    step_->reap();
  }
}

Env Lead::step_env() const {
  auto env = env_;
  env.remove_matching(
      {"DLRUN_TOKEN", "DLRUN_RANK", "DLRUN_WORLD_SIZE", "DLRUN_LOCAL_*", "DLRUN_NODE_RANK",
       "DLRUN_NNODES", "DLRUN_ADDR", "DLRUN_MASTER_*", "DLRUN_STORE"},
      {});
  std::vector<std::string> lead;
  for (const auto& ip : addresses_) lead.push_back(Endpoint{ip, gate_->port()}.text());
  env.set("DLRUN_JOB", identity_.job);
  env.set("DLRUN_RUN", run_.directory.string());
  env.set("DLRUN_ATTEMPT", std::to_string(run_.attempt));
  env.set("DLRUN_LEAD", join(lead, ","));
  env.set("DLRUN_SECRET", to_text(secret_));
  return env;
}

std::string Lead::too_few_files(int error) const {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const auto joined = rank_of_peer_.size();
  const int size = options_.local ? *options_.local : attempt_->world_size();
  const auto wanted =
      static_cast<std::size_t>(std::max(size, static_cast<int>(joined))) + kOwnFiles;
  return fmt::format(
      "lead cannot take another rank's connection after {}: {}; it may have {} open files, one for "
      "each rank and some "
      "of "
      "its own, and needs about {}: raise the hard limit where the job starts (`ulimit -Hn`; "
      "LimitNOFILE of slurmd), "
      "or start fewer ranks",
      joined, errno_text(error), limit.rlim_cur, wanted);
}

Result<> Lead::start_step() {
  if (options_.local) {
    auto log = BackgroundFile::open((run_.directory / "local.out").string(), kLocalLogQueueBytes,
                                    BackgroundFile::Content::kText);
    if (log) {
      local_log_ = std::move(*log);
    } else {
      say(log.error().message);
      record("warning", {{"message", log.error().message}});
    }
  }
  const StepPlumbing plumbing{loop_,     *this, out_, err_, local_log_.get(), marks_of(secret_),
                              bystander_};
  auto env = step_env();
  auto command = command_;
  if (marks_errors()) keep_lines_whole(command, env);
  auto step = options_.local ? start_local(plumbing, command, std::move(env), *options_.local)
                             : start_srun(plumbing, command, env);
  if (!step) return tl::unexpected<Error>(std::move(step.error()));
  step_ = std::move(*step);
  return {};
}

/// Closes local.out. Warns the user if output is missing from it.
void Lead::close_local_log() {
  if (!local_log_) return;
  std::string lacks;
  if (const auto dropped = local_log_->dropped_bytes(); dropped > 0)
    lacks = fmt::format("{} bytes of output: it was not written fast enough", dropped);
  if (!local_log_->drain(kLocalLogLimit))
    lacks += (lacks.empty() ? "" : ", and ") + std::string("its end");
  if (lacks.empty()) return;
  const auto message = fmt::format("local.out lacks {}", lacks);
  say(message);
  record("warning", {{"message", message}});
}

void Lead::take_signals() {
  signalfd_siginfo info{};
  while (::read(signal_fd_, &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal != SIGCHLD) {
      attempt_->on_own_signal(signal, Clock::now());
      if (signal == SIGUSR1) look_at_limit();
      if (signal != SIGUSR1) ++ends_asked_;
    } else if (step_) {
      step_->reap();
    }
  }
}

/// Asks Slurm for the time left after a USR1. A user who wants a checkpoint sends the same signal
/// as Slurm before the time limit; only the time left tells them apart.
void Lead::look_at_limit() {
  if (controller_ == nullptr || options_.retry.signal_before_s == 0) return;
  if (!limit_.is_open()) limit_.ask([controller = *controller_] { return controller.job(); });
}

void Lead::on_limit_known(const Result<JobFacts>& facts) {
  const std::int64_t before = options_.retry.signal_before_s;
  const auto left = facts && facts->seconds_to_limit ? *facts->seconds_to_limit : before;
  if (left > before + kSignalComesEarly.count()) return;
  attempt_->on_limit_near();
  if (!ends_before_limit_) return;
  const auto margin = std::min<std::int64_t>(kRequeueTakes.count(), left / 2);
  attempt_->on_limit_ahead(std::chrono::seconds(std::max<std::int64_t>(left - margin, 0)),
                           Clock::now());
}

void Lead::confirm_node_failure(Clock::time_point now) {
  if (const auto lost = lost_nodes_.take()) {
    if (!*lost) {  // the controller did not answer: ask again later
      claimed_nodes_ =
          std::exchange(asked_nodes_, {}) + (claimed_nodes_.empty() ? "" : "," + claimed_nodes_);
      next_question_ = now + kAskAgain;
    } else if ((*lost)->empty()) {
      const auto message = fmt::format(
          "srun says that {} failed, and Slurm's controller that the job still has it; "
          "the run goes on",
          printable(asked_nodes_));
      say(message);
      record("warning", {{"message", message}});
    } else {
      attempt_->on_node_failure(compress_hostlist(**lost), now);
    }
  }
  if (claimed_nodes_.empty() || lost_nodes_.is_open() || controller_ == nullptr ||
      now < next_question_)
    return;
  asked_nodes_ = std::exchange(claimed_nodes_, {});
  lost_nodes_.ask(
      [controller = *controller_, nodes = asked_nodes_] { return controller.lost_nodes(nodes); });
}

bool Lead::on_peer(PeerId peer, const Claim& claim) {
  const bool is_of_this_step = !step_name_ || *step_name_ == claim.step;
  if (claim.job != identity_.job || claim.attempt != run_.attempt || !is_of_this_step ||
      !attempt_->wants(claim.rank) || peer_of_rank_.contains(claim.rank)) {
    return false;
  }
  step_name_ = claim.step;
  rank_of_peer_[peer] = claim.rank;
  peer_of_rank_[claim.rank] = peer;
  return true;
}

void Lead::on_lost(PeerId peer, std::string_view why) {
  const auto found = rank_of_peer_.find(peer);
  if (found == rank_of_peer_.end()) return;
  const int rank = found->second;
  rank_of_peer_.erase(found);
  peer_of_rank_.erase(rank);
  store_.drop(rank);
  note_sleep(Clock::now());
  attempt_->on_lost(rank, why, Clock::now());
}

void Lead::on_message(PeerId peer, std::string_view payload) {
  const auto found = rank_of_peer_.find(peer);
  if (found == rank_of_peer_.end()) return;
  const int rank = found->second;
  const auto now = Clock::now();
  note_sleep(now);
  attempt_->on_heard(rank, now);
  const auto message = parse_json<Json>(payload);
  if (!message.is_object()) return;
  const auto type = text(message, "type");
  const auto id =
      static_cast<std::uint64_t>(std::max<std::int64_t>(integer_or(message, "id", 0), 0));
  if (type == "hello") {
    on_hello(rank, peer, message);
  } else if (type == "put") {
    answer(store_.put(rank, id, text(message, "key"), text(message, "value")));
  } else if (type == "get") {
    const milliseconds wait(
        std::clamp<std::int64_t>(integer_or(message, "wait_ms", 30'000), 0, kWaitLimit.count()));
    answer(store_.get(rank, id, text(message, "key"), wait, now));
  } else if (type == "progress") {
    if (const auto body = message.find("body"); body != message.end())
      attempt_->on_progress(rank, *body, now);
  } else if (type == "signal") {
    attempt_->on_rank_signal(
        rank, static_cast<int>(std::clamp<std::int64_t>(integer_or(message, "signal", 0), 1, 64)),
        now);
  } else if (type == "table") {
    attempt_->on_table(rank, integer_or(message, "from", -1));
  } else if (type == "warning") {
    attempt_->on_warning(rank, text(message, "message"));
  } else if (type == "checking") {
    attempt_->on_checking(rank);
  } else if (type == "checked") {
    attempt_->on_checked(rank, now);
  } else if (type == "check_failed") {
    attempt_->on_check_failed(rank, text(message, "words").substr(0, 4096),
                              is_true(message, "is_own"), now);
  } else if (type == "exit") {
    const int code = static_cast<int>(
        std::clamp<std::int64_t>(integer_or(message, "code", kExitInternal), 0, 255));
    const int signal =
        static_cast<int>(std::clamp<std::int64_t>(integer_or(message, "signal", 0), 0, 64));
    if (step_) step_->reap();  // learn first of a killed launcher: it explains the rank's end
    RankEnd end{code, signal, text(message, "error").substr(0, 4096)};
    if (const auto own = message.find("own"); own != message.end() && own->is_boolean())
      end.is_own = own->get<bool>();
    end.is_unheard = is_true(message, "unheard");
    if (message.contains("of"))
      end.of =
          static_cast<int>(std::clamp<std::int64_t>(integer_or(message, "of", -1), -1, 1 << 24));
    attempt_->on_exit(rank, std::move(end), now);
  } else if (type == "autopsy") {
    attempt_->on_autopsy(rank, frames_of_line(payload), now);
  } else if (type == "stopped") {
    attempt_->on_stopped(rank,
                         std::chrono::seconds(std::clamp<std::int64_t>(
                             integer_or(message, "seconds", 0), 0, 1 << 30)),
                         now);
  } else if (type == "beat") {
    samples_.note(rank, message, now);
    if (const auto host = host_of_rank_.find(rank); host != host_of_rank_.end())
      idle_gpus_.note(rank, host->second, message, now);
    if (is_true(message, "printed")) attempt_->on_output(now);
  }
}

void Lead::on_hello(int rank, PeerId peer, const Json& message) {
  auto hello = Hello::of_json(message);
  if (!hello) {
    say(fmt::format("rank {}: {}", rank, hello.error().message));
    return gate_->close(peer);
  }
  // A rank on lead's node may have connected over the loopback interface. Other nodes need an
  // address that they can reach.
  if (is_loopback(hello->addr) && hello->world.nnodes > 1) hello->addr = addresses_.front();
  if (hello->time) {
    const auto here = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::system_clock::now().time_since_epoch());
    if (const auto problem = clock_problem(*hello->time, here))
      hello->unfit += (hello->unfit.empty() ? "" : "; ") + *problem;
  }
  samples_.add(hello->world, hello->host);
  host_of_rank_[rank] = hello->host;
  attempt_->on_hello(rank, *hello, Clock::now());
}

void Lead::answer(const std::vector<Store::Answer>& answers) {
  for (const auto& [rank, id, value] : answers) {
    Json reply{{"type", "reply"}, {"id", id}, {"ok", value.has_value()}};
    if (!value) {
      reply["error"] = value.error().message;
    } else if (!value->empty()) {
      reply["value"] = *value;
    }
    send(rank, reply);
  }
}

void Lead::note_sleep(Clock::time_point now) {
  if (now - last_tick_ > kAsleep) {
    attempt_->on_asleep(now - last_tick_, now);
    idle_gpus_.on_asleep(now - last_tick_);
  }
  last_tick_ = now;
}

void Lead::tick() {
  const auto now = Clock::now();
  note_sleep(now);
  gate_->tick(now);
  answer(store_.expire(now));
  if (step_) step_->tick();
  confirm_node_failure(now);
  if (const auto facts = limit_.take()) on_limit_known(*facts);
  if (now >= next_beat_) {
    next_beat_ = now + kBeatEvery;
    broadcast({{"type", "beat"}});
  }
  if (auto failure = events_.take_failure()) {
    say(fmt::format("{}; the run goes on, its record is incomplete", failure->message));
  }
  if (local_log_) {
    if (auto failure = local_log_->take_failure()) {
      say(fmt::format("{}; the run goes on without it", failure->message));
      record("warning", {{"message", failure->message}});
    }
  }
  if (watch_ && !is_superseded_ && watch_->is_superseded()) {
    is_superseded_ = true;
    attempt_->give_up(
        kExitRunTaken,
        fmt::format("attempt {} of this run is superseded by a later one; this one ends",
                    run_.attempt),
        now);
  }
  write_samples(now, false);
  if (attempt_->end().has_run && !has_begun_) {
    has_begun_ = true;
    idle_gpus_.on_start(now);
  }
  if (const auto idle = idle_gpus_.due(now))
    attempt_->on_idle_gpus(*idle, options_.ends_idle_gpus, now);
  attempt_->tick(now);
}

void Lead::write_samples(Clock::time_point now, bool is_last) {
  if (is_superseded_) return;
  if (samples_.is_snapshot_due(now) || (is_last && samples_.has_any())) {
    ranks_file_.put(
        samples_.snapshot(run_.attempt, utc_timestamp(std::chrono::system_clock::now()), now));
  }
  if (samples_.is_record_due(now)) {
    if (const auto fields = samples_.record(now)) record("samples", *fields);
  }
  if (is_last) std::ignore = ranks_file_.drain(kLastSnapshotLimit);
  if (auto failure = ranks_file_.take_failure()) {
    say(fmt::format("{}; `dlrun top` will not see the ranks", failure->message));
    record("warning", {{"message", failure->message}});
  }
}

milliseconds Lead::next_wait() const {
  const auto now = Clock::now();
  auto wait = kTickEvery;
  const auto until = [&](std::optional<Clock::time_point> when) {
    if (when)
      wait = std::clamp(std::chrono::ceil<milliseconds>(*when - now), milliseconds(0), wait);
  };
  until(attempt_->next_deadline());
  until(gate_->next_deadline());
  until(store_.next_deadline());
  return wait;
}

}  // namespace

Result<AttemptEnd> lead_attempt(const AttemptPlace& place) {
  return Lead(place).lead_attempt();
}

}  // namespace dlrun::agent
