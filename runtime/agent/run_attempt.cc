// Lead's event loop during one attempt: it turns messages of ranks, lines of the step, signals and
// timers into calls of Attempt, and carries out the decisions of Attempt.
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "common/files.h"
#include "common/hostlist.h"
#include "common/log.h"
#include "common/text.h"
#include "runtime/agent/address.h"
#include "runtime/agent/attempt_runner.h"
#include "runtime/agent/component_step.h"
#include "runtime/agent/components_runner.h"
#include "runtime/agent/exit_codes.h"
#include "runtime/agent/intervals.h"
#include "runtime/agent/node_check.h"
#include "runtime/agent/program_start.h"
#include "runtime/agent/protocol.h"

namespace dlrun::agent {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kTickEvery{500};
/// Shortest time between two ticks. Ten thousand ranks wake the loop some thousand times a second,
/// and each tick costs system calls.
constexpr milliseconds kTickPause{5};
/// With at least kGatherFrom ranks, lead waits for kGatherTime after a round with fewer than
/// kFewReady heartbeats and nothing else. With ten thousand ranks a heartbeat arrives every 0.3 ms.
/// Because of the wait, lead wakes up once for several of them.
constexpr std::size_t kGatherFrom = 1000;
constexpr std::size_t kFewReady = 32;
constexpr milliseconds kGatherTime{2};
/// If lead has handled neither a message nor a tick for longer than this time, lead was suspended.
constexpr milliseconds kAsleepAfter{2000};
/// Slurm may send USR1 earlier than requested, by up to this time, because Slurm checks time limits
/// only twice a minute, and rounds times.
constexpr std::chrono::seconds kSignalEarlyBy{90};
/// Time before the limit that is reserved for ending the ranks and requeuing the job.
constexpr std::chrono::seconds kRequeueReserve{15};
constexpr milliseconds kLastRanksJsonLimit{1000};  ///< longest wait for the last ranks.json
constexpr std::chrono::seconds kStepEndLimit{90};  ///< longest wait for srun after a success
/// If Slurm's controller has not answered about failed nodes, lead asks it again after this time.
constexpr milliseconds kAskAgainAfter{2000};
constexpr std::size_t kOwnFiles = 64;  ///< open files of lead besides the connections of ranks
constexpr std::size_t kLocalLogQueueBytes = 4U << 20U;
/// Time to read the rest of metrics.jsonl and to write the rest of the event file at the end of an
/// attempt.
constexpr milliseconds kTensorboardLimit{1000};
constexpr milliseconds kLocalLogLimit{5000};  ///< time to write the rest of local.out

/// Returns the node list of the step: the value of `--nodelist=`, or the nodes of the step's part
/// of a heterogeneous job, otherwise all nodes of the job.
std::string nodes_of_step(const std::vector<std::string>& command, const Env& env) {
  constexpr std::string_view kChosen = "--nodelist=";
  constexpr std::string_view kGroup = "--het-group=";
  for (const auto& word : command) {
    if (word == "--" || word == "rank") break;
    if (word.starts_with(kChosen)) return word.substr(kChosen.size());
    if (word.starts_with(kGroup))
      return env.get_or("SLURM_JOB_NODELIST_HET_GROUP_" + word.substr(kGroup.size()), "");
  }
  return env.get_or("SLURM_JOB_NODELIST", "");
}

/// Returns the source of the values for TensorBoard. command: see AttemptContext.
ValueSource source_of_values(const LeadOptions& options, const std::vector<std::string>& command) {
  return program_writes_metrics(options.program_is_bundled, command) ? ValueSource::kMetricsFile
                                                                     : ValueSource::kReports;
}

bool tries_collective(const LeadOptions& options) {
  const auto checks = NodeChecks::parse(options.node_checks);
  return checks && !checks->collective.empty();
}

}  // namespace

Result<> AttemptRunner::start_listening() {
  auto listener = listen_on_free_port(options_.local_ranks.has_value());
  if (!listener) return tl::unexpected<Error>(std::move(listener.error()));
  own_connections_ =
      std::make_unique<RankConnections>(loop_, *this, std::move(*listener), Secrets{});
  connections_ = own_connections_.get();
  addresses_ = lead_addresses(options_.local_ranks.has_value());
  return {};
}

AttemptOptions AttemptRunner::attempt_options() const {
  return {options_.join_timeout,
          options_.forwards_usr1,
          options_.local_ranks.value_or(0),
          options_.local_ranks ? std::string() : nodes_of_step(command_, env_),
          options_.hang_after,
          tries_collective(options_),
          true,
          options_.retry.is_enabled() && options_.retry.on.contains(Cause::kTimeout),
          marks_stderr(),
          !files_to_broadcast_.empty(),
          component_.has_value(),
          is_service(),
          options_.rehearsal};
}

std::filesystem::path AttemptRunner::log_folder() const {
  const auto folder = run_.directory / "logs" / fmt::format("attempt-{}", run_.attempt);
  return component_ ? folder / component_name() : folder;
}

void AttemptRunner::begin() {
  if (component_) {
    connections_ = &component_->connections;
    addresses_ = component_->addresses;
  }
  secret_ = random_key();
  connections_->set_secret(component_name(), secret_);
  files_to_broadcast_ = files_to_broadcast();
  attempt_ = std::make_unique<Attempt>(attempt_options(), *this, Clock::now());
  const auto env = step_env();
  record(events::Started{
      .ranks = component_ ? component_->options.rank_count : options_.local_ranks.value_or(0),
      .lead = std::string(*env.get("DLRUN_LEAD")),
      .argv = command_,
      .checks = options_.node_checks});
  if (auto made = make_private_directories(log_folder()); !made) {
    say(made.error().message);
    record(events::Warning{.message = made.error().message});
  }
  if (options_.writes_tensorboard) open_tensorboard();  // before the programs start
  if (auto started = start_step(); !started)
    attempt_->on_step_end(exit_code_of(started.error()), started.error().message, Clock::now());
  if (!options_.stop_early.metric.empty())
    stop_early_ = std::make_unique<StopEarly>(options_.stop_early, run_.directory);
}

Result<AttemptEnd> AttemptRunner::run() {
  DLRUN_TRY(start_listening());
  begin();
  const auto signals = loop_.watch(signal_fd_, EPOLLIN, [this](std::uint32_t) { take_signals(); });
  if (!options_.local_ranks)
    later_attempt_watch_ = std::make_unique<LaterAttemptWatch>(run_.directory, run_.attempt);
  while (!attempt_->is_over()) run_round();
  write_samples(Clock::now(), true);
  wait_for_step_end();
  step_.reset();
  close_local_log();
  close_tensorboard();
  if (signals) loop_.unwatch(*signals);
  return attempt_->end();
}

void AttemptRunner::run_round() {
  heard_beat_count_ = 0;
  const auto ready = loop_.run_once(next_wait());
  tick_or_postpone();
  const bool had_only_beats = ready > 0 && heard_beat_count_ == ready;
  if (had_only_beats && ready < kFewReady && peer_of_rank_.size() >= kGatherFrom)
    std::this_thread::sleep_for(kGatherTime);
}

void AttemptRunner::wait_for_step_end() {
  if (!step_ || attempt_->step_is_over() || attempt_->end().code != 0) return;
  on_success_before_srun_exits_(attempt_->end());
  const auto until = Clock::now() + kStepEndLimit;
  while (!attempt_->step_is_over() && Clock::now() < until && end_signal_count_ < 2) {
    loop_.run_once(kTickEvery);
    step_->tick();
    step_->reap();
  }
}

Env AttemptRunner::step_env() const {
  auto env = env_;
  env.remove_matching({"DLRUN_TOKEN", "DLRUN_RANK", "DLRUN_WORLD_SIZE", "DLRUN_LOCAL_*",
                       "DLRUN_NODE_RANK", "DLRUN_NNODES", "DLRUN_ADDR", "DLRUN_MASTER_*",
                       "DLRUN_STORE", "DLRUN_COMPONENT*", "DLRUN_HELD_PORT", "DLRUN_HIDES_GPUS"},
                      {});
  if (component_) set_component_env(env, component_->options, component_->held_port);
  std::vector<std::string> lead;
  for (const auto& ip : addresses_) lead.push_back(Endpoint{ip, connections_->port()}.text());
  env.set("DLRUN_JOB", identity_.job);
  env.set("DLRUN_RUN", run_.directory.string());
  env.set("DLRUN_ATTEMPT", std::to_string(run_.attempt));
  env.set("DLRUN_LEAD", join(lead, ","));
  env.set("DLRUN_SECRET", to_text(secret_));
  return env;
}

std::string AttemptRunner::too_few_descriptors_message(int error) const {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const auto joined = rank_of_peer_.size();
  const int size = options_.local_ranks ? *options_.local_ranks : attempt_->world_size();
  const auto wanted =
      static_cast<std::size_t>(std::max(size, static_cast<int>(joined))) + kOwnFiles;
  return fmt::format(
      "lead has the connections of {} ranks and cannot accept another one: {}; its limit is {} "
      "open files, and it needs about {}, one for each rank and some of its own: raise the hard "
      "limit where the job starts (`ulimit -Hn`; LimitNOFILE of slurmd), or start fewer ranks",
      joined, errno_text(error), limit.rlim_cur, wanted);
}

Result<> AttemptRunner::start_step() {
  if (options_.local_ranks) {
    auto log = BackgroundFile::open((run_.directory / "local.out").string(), kLocalLogQueueBytes,
                                    BackgroundFile::Content::kText);
    if (log) {
      local_log_ = std::move(*log);
    } else {
      say(log.error().message);
      record(events::Warning{.message = log.error().message});
    }
  }
  const StepContext context{
      loop_, *this, out_, err_, local_log_.get(), marks_of(secret_), child_not_to_kill_};
  auto env = step_env();
  auto command = command_;
  if (marks_stderr()) keep_lines_whole(command, env);
  auto step = options_.local_ranks
                  ? start_local(context, command, std::move(env), *options_.local_ranks)
                  : start_srun(context, command, env);
  if (!step) return tl::unexpected<Error>(std::move(step.error()));
  step_ = std::move(*step);
  return {};
}

void AttemptRunner::open_tensorboard() {
  auto log =
      TensorboardLog::open(run_.directory, run_.attempt, host_, std::chrono::system_clock::now(),
                           Clock::now(), source_of_values(options_, command_));
  if (log) {
    tensorboard_ = std::move(*log);
    return;
  }
  const auto message = fmt::format("track.tensorboard: {}", log.error().message);
  say(message);
  record(events::Warning{.message = message});
}

void AttemptRunner::close_tensorboard() {
  if (!tensorboard_) return;
  const bool is_written = tensorboard_->drain(kTensorboardLimit);
  const auto failure = tensorboard_->take_failure();
  tensorboard_.reset();
  if (is_written && !failure) return;
  const auto message = fmt::format(
      "track.tensorboard: the event file lacks values: {}",
      failure
          ? failure->message
          : fmt::format("the last ones were not written within {} ms", kTensorboardLimit.count()));
  say(message);
  record(events::Warning{.message = message});
}

/// Closes local.out. Warns the user if output is missing from it.
void AttemptRunner::close_local_log() {
  if (!local_log_) return;
  std::string lacks;
  if (const auto dropped = local_log_->dropped_bytes(); dropped > 0)
    lacks = fmt::format("{} bytes of output that could not be written fast enough", dropped);
  if (!local_log_->drain(kLocalLogLimit))
    lacks += (lacks.empty() ? "" : ", and ") + std::string("the end of the output");
  if (lacks.empty()) return;
  const auto message = fmt::format("local.out lacks {}", lacks);
  say(message);
  record(events::Warning{.message = message});
}

void AttemptRunner::take_signals() {
  signalfd_siginfo info{};
  while (::read(signal_fd_, &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    signal == SIGCHLD ? reap() : on_signal(signal);
  }
}

void AttemptRunner::on_signal(int signal) {
  attempt_->on_lead_signal(signal, Clock::now());
  if (signal == SIGUSR1) ask_for_time_left();
  if (signal != SIGUSR1) ++end_signal_count_;
}

/// Asks Slurm, after a USR1, for the time that is left. Slurm sends USR1 before the time limit, and
/// a user may send it to request a checkpoint. Only the time left distinguishes the two.
void AttemptRunner::ask_for_time_left() {
  if (controller_ == nullptr || options_.retry.signal_before_s == 0) return;
  if (!job_query_.is_pending())
    job_query_.ask([controller = *controller_] { return controller.job(); });
}

void AttemptRunner::on_time_left(const Result<JobFacts>& facts) {
  const std::int64_t before = options_.retry.signal_before_s;
  const auto left = facts && facts->seconds_to_limit ? *facts->seconds_to_limit : before;
  log_info("looked at the time limit after a signal", {{"seconds_left", left}, {"before", before}});
  if (left > before + kSignalEarlyBy.count()) return;
  attempt_->on_limit_near();
  if (!ends_before_limit_) return;
  // The outputs are copied before the job is queued again.
  const auto margin =
      std::min<std::int64_t>((kRequeueReserve + attempt_->longest_output_copy()).count(), left / 2);
  const auto requeue_s = std::min<std::int64_t>(kRequeueReserve.count(), left / 4);
  attempt_->end_output_copies_by(Clock::now() + std::chrono::seconds(left - requeue_s));
  if (is_service()) return;  // a service ends after the main components
  attempt_->end_before_limit(std::chrono::seconds(std::max<std::int64_t>(left - margin, 0)),
                             Clock::now());
}

std::vector<FileBroadcast> AttemptRunner::files_to_broadcast() const {
  const auto nodes = parse_int(env_.get_or("SLURM_JOB_NUM_NODES", "")).value_or(1);
  if (options_.local_ranks || run_.attempt > 0 || options_.stage.empty()) return {};
  return planned_file_broadcasts(options_.stage, env_, nodes);
}

void AttemptRunner::begin_file_broadcast() {
  for (const auto& file : files_to_broadcast_)
    say(fmt::format("staging: sbcast sends {} to all nodes", printable(file.from)));
  file_broadcast_.ask([files = files_to_broadcast_, items = options_.stage.size(), env = env_] {
    return broadcast_files(files, items, env);
  });
}

void AttemptRunner::on_file_broadcast_end(const FileBroadcastResult& result) {
  for (const auto& problem : result.problems) {
    say(problem);
    record(events::Warning{.message = problem});
  }
  attempt_->on_file_broadcast_end(result.copies);
}

void AttemptRunner::confirm_node_failure(Clock::time_point now) {
  if (const auto lost = node_query_.take()) {
    if (!*lost) {  // the controller did not answer: ask again later
      reported_nodes_ =
          std::exchange(asked_nodes_, {}) + (reported_nodes_.empty() ? "" : "," + reported_nodes_);
      next_question_ = now + kAskAgainAfter;
    } else if ((*lost)->empty()) {
      const auto message = fmt::format(
          "srun reports a failure of the nodes {}, but Slurm's controller says that the job still "
          "has these nodes; the run goes on",
          printable(asked_nodes_));
      say(message);
      record(events::Warning{.message = message});
    } else {
      attempt_->on_node_failure(compress_hostlist(**lost), now);
    }
  }
  if (reported_nodes_.empty() || node_query_.is_pending() || controller_ == nullptr ||
      now < next_question_)
    return;
  asked_nodes_ = std::exchange(reported_nodes_, {});
  node_query_.ask(
      [controller = *controller_, nodes = asked_nodes_] { return controller.lost_nodes(nodes); });
}

void AttemptRunner::note_lead_suspension(Clock::time_point now) {
  if (now - last_awake_ > kAsleepAfter) {
    attempt_->on_lead_suspended(now - last_awake_, now);
    idle_gpus_.on_lead_suspended(now - last_awake_);
  }
  last_awake_ = now;
}

void AttemptRunner::tick_or_postpone() {
  const auto now = Clock::now();
  owes_tick_ = now < last_tick_ + kTickPause;
  if (owes_tick_) return;
  last_tick_ = now;
  tick(now);
}

void AttemptRunner::tick(Clock::time_point now) {
  note_lead_suspension(now);
  if (own_connections_) own_connections_->tick(now);
  send_replies(store_.expire(now));
  if (step_) step_->tick();
  confirm_node_failure(now);
  if (const auto facts = job_query_.take()) on_time_left(*facts);
  if (const auto sent = file_broadcast_.take()) on_file_broadcast_end(*sent);
  if (now >= next_beat_) {
    next_beat_ = now + kBeatEvery;
    broadcast(to_rank::Beat{});
  }
  report_write_failures();
  if (later_attempt_watch_ && later_attempt_watch_->is_superseded()) end_superseded(now);
  write_samples(now, false);
  if (tensorboard_) tensorboard_->tick();
  if (attempt_->end().has_run && !programs_have_started_) {
    programs_have_started_ = true;
    idle_gpus_.on_start(now);
  }
  if (const auto idle = idle_gpus_.take_message(now))
    attempt_->on_idle_gpus(*idle, options_.idle_gpus_end_run, now);
  if (const auto verdict = stop_early_ ? stop_early_->take_verdict() : std::nullopt)
    attempt_->on_stop_early(*verdict, now);
  attempt_->tick(now);
}

void AttemptRunner::report_write_failures() {
  if (auto failure = events_.take_failure()) {
    say(fmt::format("{}; the run goes on, but its record is incomplete", failure->message));
  }
  if (!local_log_) return;
  if (auto failure = local_log_->take_failure()) {
    say(fmt::format("{}; the run goes on, but this file lacks output", failure->message));
    record(events::Warning{.message = failure->message});
  }
}

void AttemptRunner::end_superseded(Clock::time_point now) {
  if (std::exchange(is_superseded_, true)) return;
  attempt_->give_up(
      kExitRunTaken,
      fmt::format("a later attempt has superseded attempt {0} of this run; attempt {0} ends now",
                  run_.attempt),
      now);
}

void AttemptRunner::write_samples(Clock::time_point now, bool is_last) {
  if (is_superseded_) return;
  if (samples_.is_ranks_json_due(now) || (is_last && samples_.has_samples())) {
    ranks_file_.put(samples_.take_ranks_json(run_.attempt,
                                             utc_timestamp(std::chrono::system_clock::now()), now));
  }
  if (samples_.is_event_due(now)) {
    if (const auto samples = samples_.take_event(now)) record(*samples);
  }
  if (is_last) std::ignore = ranks_file_.drain(kLastRanksJsonLimit);
  if (auto failure = ranks_file_.take_failure()) {
    say(fmt::format("{}; `dlrun top` shows old values of the ranks, or none", failure->message));
    record(events::Warning{.message = failure->message});
  }
}

milliseconds AttemptRunner::next_wait() const {
  const auto now = Clock::now();
  // Events have been handled since the last tick, and the next tick may act on them.
  if (owes_tick_)
    return std::clamp(std::chrono::ceil<milliseconds>(last_tick_ + kTickPause - now),
                      milliseconds(0), kTickPause);
  auto wait = kTickEvery;
  const auto wake_at = [&](std::optional<Clock::time_point> when) {
    if (when)
      wait = std::clamp(std::chrono::ceil<milliseconds>(*when - now), milliseconds(0), wait);
  };
  wake_at(attempt_->next_deadline());
  if (own_connections_) wake_at(own_connections_->next_deadline());
  wake_at(store_.next_deadline());
  return wait;
}

Result<AttemptEnd> run_attempt(const AttemptContext& context) {
  return context.options.components.empty() ? AttemptRunner(context).run()
                                            : run_components(context);
}

}  // namespace dlrun::agent
