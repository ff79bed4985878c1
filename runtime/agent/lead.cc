// Leads a run through its attempts in this start of the job: claims the run, starts attempt after
// attempt, and either records the end of the run or has Slurm requeue the job.
#include "runtime/agent/lead.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "common/files.h"
#include "common/hostlist.h"
#include "common/log.h"
#include "common/text.h"
#include "runtime/agent/address.h"
#include "runtime/agent/agent_log.h"
#include "runtime/agent/attempt_lead.h"
#include "runtime/agent/bad_node_memory.h"
#include "runtime/agent/controller.h"
#include "runtime/agent/descendants.h"
#include "runtime/agent/event_log.h"
#include "runtime/agent/exit_codes.h"
#include "runtime/agent/process_tree.h"
#include "runtime/agent/protocol.h"
#include "runtime/agent/record_wait.h"
#include "runtime/agent/run_claim.h"
#include "runtime/agent/script_end.h"
#include "runtime/agent/secrets.h"
#include "runtime/agent/sink.h"
#include "runtime/agent/surroundings.h"

namespace dlrun::agent {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// Time to write lead's last output to a slow reader.
constexpr milliseconds kLastWordsLimit{5000};
/// Time to wait for surroundings.json at the end of a short run.
constexpr milliseconds kSurroundingsLimit{3000};
constexpr off_t kLogTailBytes = 64 << 10;
/// Time for Slurm to report that a silent node is down (SlurmdTimeout: five minutes).
constexpr seconds kVerdictLimit{330};
constexpr seconds kAskAgain{2};
constexpr milliseconds kLauncherEnd{1000};  ///< from SIGKILL to the end of srun's helper process
constexpr seconds kDiskFullLimit{60};       ///< time for a full disk to have room again
constexpr milliseconds kDiskTriedEvery{500};
/// Time for Slurm's signal after it refused our requeue. Slurm refuses when it is requeueing the
/// job already.
constexpr seconds kSlurmWasFaster{5};
constexpr seconds kRequeueLimit{60};  ///< time for Slurm to end this process after a requeue

/// Prints an error that occurred before any attempt, and returns code.
int refuse(const Error& error, int code) {
  std::ignore = write_all(STDERR_FILENO, fmt::format("dlrun: {}\n", error.message));
  return code;
}

/// The outputs of lead: the record, standard output and standard error.
struct Outputs {
  EventLoop& loop;
  EventLog& events;
  Sink& out;
  Sink& err;
  int signal_fd;

  void say(std::string_view line) const {
    log_info("said", {{"message", line}});
    err.push(fmt::format("dlrun: {}\n", line));
  }
  /// Waits until the record is on the disk. Returns false if it is not; err then says so.
  [[nodiscard]] bool wait_for_record() const {
    return agent::wait_for_record({loop, events, err, signal_fd});
  }
  /// Writes the rest of all outputs and returns code.
  int close(int code) const {
    std::ignore = wait_for_record();
    if (const auto failure = events.take_failure()) {
      say(fmt::format("{}; the run's record is incomplete", failure->message));
    }
    const auto until = Clock::now() + kLastWordsLimit;
    while (out.held_bytes() + err.held_bytes() > 0 && Clock::now() < until)
      loop.run_once(milliseconds(100));
    return code;
  }
};

/// Records the end of the run and removes its secrets.
void record_end(EventLog& events, const std::filesystem::path& run, const AttemptEnd& end) {
  events.record(events::Ended{.state = end.is_timeout     ? EndState::kTimeout
                                       : end.is_cancelled ? EndState::kCancelled
                                       : end.code == 0    ? EndState::kCompleted
                                                          : EndState::kFailed,
                              .code = end.code,
                              .message = end.message,
                              .requeued = end.is_requeued});
  remove_secrets(run);
}

/// Blocks the signals that lead handles and returns a signalfd that delivers them.
UniqueFd catch_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  // If SIGCHLD were ignored, the kernel would reap the step, and its exit status would be lost.
  signal(SIGCHLD, SIG_DFL);
  ignore_write_signals();
  return UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

/// Waits for limit, or until a signal asks for the end. Returns that signal.
std::optional<int> signal_within(int signal_fd, Clock::duration limit) {
  for (const auto until = Clock::now() + limit;;) {
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
    if (left <= milliseconds::zero()) return std::nullopt;
    pollfd ready{.fd = signal_fd, .events = POLLIN, .revents = 0};
    ::poll(&ready, 1, static_cast<int>(left.count()));
    signalfd_siginfo info{};
    while (::read(signal_fd, &info, sizeof info) == sizeof info) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGTERM || signal == SIGINT || signal == SIGHUP) return signal;
    }
  }
}

/// Returns the end of the file to which this process's standard error goes; empty if standard error
/// is not a regular file.
std::string own_log() {
  std::string text;
  const UniqueFd file(::open("/proc/self/fd/2", O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (!file.is_open() || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return text;
  text.resize(static_cast<std::size_t>(std::min(info.st_size, kLogTailBytes)));
  const auto got =
      ::pread(file.get(), text.data(), text.size(), info.st_size - static_cast<off_t>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

/// Leads the attempts of a run in this start of the job, one after another.
class RunLeader {
 public:
  /// bystander: a child of this process that does not belong to a step; -1: none.
  RunLeader(const LeadOptions& options, const Env& env, const JobIdentity& identity, ClaimedRun run,
            const Outputs& outputs, pid_t bystander, RetryHistory history)
      : options_(options),
        env_(env),
        identity_(identity),
        run_(std::move(run)),
        outputs_(outputs),
        events_(outputs.events),
        bystander_(bystander),
        history_(std::move(history)),
        command_(options.command) {
    if (!options.local) controller_.emplace(env, identity.job);
  }

  /// Leads the run and returns the exit code of the process.
  int run();
  void say(std::string_view line) const { outputs_.say(line); }

 private:
  enum class Next { kEnd, kStep, kRequeue, kSlurm };
  [[nodiscard]] static std::string_view word_of(Next next);
  struct Plan {
    Next next = Next::kEnd;
    Cause cause = Cause::kNone;
    std::vector<std::string> bad_nodes{};
  };

  /// Returns true, after telling the user, if a later attempt has begun elsewhere while this one
  /// waited for Slurm. If a node with its lead is cut off, Slurm restarts the job on other nodes.
  [[nodiscard]] bool is_superseded() const;
  [[nodiscard]] bool has_later_attempt() const;
  /// Writes the next attempt's number. Retries for a while if the run's folder is full or away.
  [[nodiscard]] Result<> begin_next_attempt();
  [[nodiscard]] Plan plan_after(AttemptEnd& end);
  /// Asks Slurm for the cause of the end if the signals alone did not tell it.
  [[nodiscard]] Cause cause_by_slurm(AttemptEnd& end) const;
  /// Returns the nodes that Slurm considers bad. Waits for Slurm's verdict if a node is silent.
  [[nodiscard]] std::vector<std::string> ask_for_bad_nodes(AttemptEnd& end);
  /// Ends what srun has left behind while the controller cannot be reached. srun's helper process
  /// cancels the step as soon as it reaches the controller again; by then the job may run on other
  /// nodes, where its new step has the same number.
  void end_cut_off_launcher() const;
  [[nodiscard]] Next where_to(Cause cause, const std::vector<std::string>& bad_nodes);
  /// Changes the command to run on these nodes only, at most RetryOptions::step_nodes of them.
  void step_on(std::vector<std::string> nodes);
  /// Chooses the first attempt's nodes if the allocation has spare ones.
  void choose_nodes();
  /// Adds the nodes that are suspect after the attempt's end to health.known_bad, the file that
  /// later submissions read.
  void remember_bad_nodes(const AttemptEnd& end, const std::vector<std::string>& by_slurm);
  /// Asks Slurm to requeue the job. Returns false if Slurm refuses; the run then ends here.
  bool requeue(AttemptEnd& end, const std::vector<std::string>& bad_nodes);
  /// Handles a launch that srun refused because Slurm is ending the job: makes the job's end the
  /// cause. Returns true if the run is left without an end, because Slurm may requeue the job.
  [[nodiscard]] bool blame_job(AttemptEnd& end);
  /// Returns true if the controller must be asked whether Slurm queues the job again although the
  /// run has completed.
  [[nodiscard]] bool may_be_requeued(const AttemptEnd& end) const {
    return controller_ && end.code == 0 && (end.had_grace || history_.was_preempted());
  }
  void record_end(const AttemptEnd& end) { agent::record_end(events_, run_.directory, end); }
  int leave(int code);

  const LeadOptions& options_;
  const Env& env_;
  const JobIdentity& identity_;
  ClaimedRun run_;
  const Outputs& outputs_;
  EventLog& events_;
  pid_t bystander_;
  RetryHistory history_;
  std::vector<std::string> command_;
  std::optional<Controller> controller_;
};

int RunLeader::run() {
  choose_nodes();
  for (;;) {
    const bool may_requeue = options_.retry.is_on() &&
                             options_.retry.on.contains(Cause::kTimeout) &&
                             history_.restarts() < options_.retry.max && controller_.has_value();
    bool is_recorded = false;
    auto led = run_attempt({options_, env_, identity_, run_, events_, outputs_.loop, outputs_.out,
                            outputs_.err, outputs_.signal_fd, command_,
                            controller_ ? &*controller_ : nullptr, bystander_, may_requeue,
                            [&](const AttemptEnd& end) {
                              is_recorded = end.cause == Cause::kNone && !may_be_requeued(end);
                              if (is_recorded) record_end(end);
                            }});
    if (!led) {
      events_.record(events::Ended{
          .state = EndState::kFailed, .code = kExitInternal, .message = led.error().message});
      remove_secrets(run_.directory);
      say(led.error().message);
      return leave(kExitInternal);
    }
    auto& end = *led;
    if (is_recorded) return leave(end.code);
    // The attempt was superseded: the record now belongs to another lead.
    if (end.code == kExitRunTaken && end.reason == EndReason::kSignalled) return leave(end.code);
    if (end.reason == EndReason::kLaunchFailed && blame_job(end)) return leave(end.code);
    const auto plan = plan_after(end);
    log_info("decided what follows the attempt", {{"attempt", run_.attempt},
                                                  {"next", word_of(plan.next)},
                                                  {"cause", word(plan.cause)},
                                                  {"end", word(end.reason)},
                                                  {"message", end.message}});
    if (is_superseded()) return leave(kExitRunTaken);  // the later attempt owns the record
    remember_bad_nodes(end, plan.bad_nodes);
    if (plan.next == Next::kEnd) {
      end.is_requeued =
          may_be_requeued(end) && controller_->requeues_by_itself(history_.was_preempted());
      record_end(end);
      return leave(end.code);
    }
    if (plan.next == Next::kSlurm) return leave(end.code);
    if (plan.next == Next::kRequeue) {
      if (!requeue(end, plan.bad_nodes)) record_end(end);
      return leave(end.code);
    }
    if (auto begun = begin_next_attempt(); !begun) {
      end.message += fmt::format("; it cannot start again: {}", begun.error().message);
      say(begun.error().message);
      record_end(end);
      return leave(end.code);
    }
    events_.set_attempt(++run_.attempt);
  }
}

std::string_view RunLeader::word_of(Next next) {
  switch (next) {
    case Next::kEnd:
      return "end";
    case Next::kStep:
      return "another attempt";
    case Next::kRequeue:
      return "requeue";
    case Next::kSlurm:
      return "wait for Slurm";
  }
  return "";
}

bool RunLeader::has_later_attempt() const {
  return read_attempt(run_.directory).value_or(run_.attempt) != run_.attempt;
}

bool RunLeader::is_superseded() const {
  const bool is_another = has_later_attempt();
  if (is_another)
    say(fmt::format("attempt {} of this run is superseded by a later one; this one ends",
                    run_.attempt));
  return is_another;
}

Result<> RunLeader::begin_next_attempt() {
  bool is_told = false;
  for (const auto until = Clock::now() + kDiskFullLimit;;) {
    auto begun = begin_attempt(run_.directory, run_.attempt + 1);
    if (begun || begun.error().code != Errc::kIo || Clock::now() >= until) return begun;
    if (!std::exchange(is_told, true)) {
      say(fmt::format("{}; it is tried again for {} s", begun.error().message,
                      std::chrono::duration_cast<seconds>(kDiskFullLimit).count()));
    }
    if (signal_within(outputs_.signal_fd, kDiskTriedEvery)) return begun;
  }
}

RunLeader::Plan RunLeader::plan_after(AttemptEnd& end) {
  if (!options_.retry.is_on() || (end.code == 0 && end.cause == Cause::kNone)) return {};
  // The trainer refused a checkpoint folder of another run. A retry would find the same folder.
  if (options_.always_reports && end.reason == EndReason::kRankFailed &&
      end.code == kTrainerRefused)
    return {};
  Plan plan{.cause = controller_ ? cause_by_slurm(end) : end.cause};
  if (end.code == 0) {  // all ranks ended with 0 after a TERM: retry only after a real preemption
    if (!controller_ || plan.cause != Cause::kPreemption) return {};
    end.code = 128 + SIGTERM;
    end.is_cancelled = true;
  }
  // A node that is silent in a hung run counts as failed at once. Slurm's own verdict on it may
  // take five minutes.
  const bool is_nodes_hang = end.reason == EndReason::kHang && !end.lost_nodes.empty();
  if (is_nodes_hang && !options_.retry.on.contains(Cause::kNodeFailure)) plan.cause = Cause::kHang;
  if (controller_ && !is_nodes_hang &&
      (plan.cause == Cause::kFailure || plan.cause == Cause::kHang)) {
    plan.bad_nodes = ask_for_bad_nodes(end);
    if (end.is_cancelled) return {};
    if (!plan.bad_nodes.empty()) plan.cause = Cause::kNodeFailure;
  }
  if (plan.cause == Cause::kHang) plan.bad_nodes = end.suspects;
  if (plan.cause == Cause::kNodeFailure && plan.bad_nodes.empty()) plan.bad_nodes = end.lost_nodes;
  history_.add_attempt(end.step, plan.cause, options_.always_reports || !end.has_run);
  const auto decision = decide_retry(options_.retry, history_, plan.cause);
  if (!decision.restarts) {
    if (!decision.why.empty()) {
      end.message += fmt::format("; it does not start again: {}", decision.why);
      say(fmt::format("the run does not start again: {}", decision.why));
    }
    return {};
  }
  // Slurm itself carries out a user's requeue. It may have begun already.
  if (plan.cause == Cause::kRequeue) return {.next = Next::kSlurm, .cause = plan.cause};
  for (const auto& node : plan.bad_nodes) history_.add_bad_node(node);
  const bool is_preempted =
      plan.cause == Cause::kPreemption && controller_ && controller_->requeues_by_itself();
  const bool is_slurms = is_preempted || (end.is_slurms_doing && plan.cause != Cause::kTimeout);
  if (has_later_attempt())
    return plan;  // Slurm has started the run elsewhere: the record is theirs
  plan.next = is_slurms
                  ? Next::kSlurm
                  : where_to(is_nodes_hang ? Cause::kNodeFailure : plan.cause, plan.bad_nodes);
  history_.add_restart();
  events::Restarting recorded{
      .cause = plan.cause,
      .left = decision.left,
      .by = plan.next == Next::kStep ? RestartedBy::kLead : RestartedBy::kSlurm};
  if (options_.retry.excludes_bad_nodes) recorded.exclude = plan.bad_nodes;
  events_.record(recorded);
  say(fmt::format("attempt {} ended ({}); the run starts again{}, at most {} restart{} left{}",
                  run_.attempt, word(plan.cause),
                  plan.next == Next::kStep ? "" : " once Slurm has queued the job again",
                  decision.left, decision.left == 1 ? "" : "s",
                  decision.is_last_unless_further && decision.left > 0
                      ? "; none if it gets no further either (retry.no_progress)"
                      : ""));
  return plan;
}

Cause RunLeader::cause_by_slurm(AttemptEnd& end) const {
  const bool is_without_reason = end.is_cancelled && end.cause == Cause::kNone;
  const bool is_a_guess = end.cause == Cause::kPreemption && !end.is_slurms_doing;
  if (!is_without_reason && !is_a_guess) return end.cause;
  const auto facts = controller_->job();
  if (!facts) return end.cause;
  if (facts->restarts > restart_count_of(env_)) {
    end.is_slurms_doing = true;
    return end.had_grace ? Cause::kPreemption : Cause::kRequeue;
  }
  if (facts->is_preempted) return Cause::kPreemption;  // ended before the grace time was over
  return is_a_guess ? Cause::kFailure : Cause::kNone;  // the TERM did not come from Slurm
}

std::vector<std::string> RunLeader::ask_for_bad_nodes(AttemptEnd& end) {
  const bool may_be_nodes = !end.suspects.empty() || end.reason == EndReason::kLaunchFailed ||
                            end.reason == EndReason::kJoinTimeout;
  const auto nodes = env_.get_or("SLURM_JOB_NODELIST", "");
  if (!may_be_nodes || nodes.empty()) return {};
  const auto suspects = end.suspects.empty() ? nodes : compress_hostlist(end.suspects);
  if (end.is_whole_node_silent)
    say(fmt::format("{} is silent; Slurm is asked what it knows", suspects));
  for (const auto until = Clock::now() + (end.is_whole_node_silent ? kVerdictLimit : seconds(0));
       ;) {
    const auto bad = controller_->bad_nodes(suspects);
    if (bad && !bad->empty()) return *bad;
    if (!bad && end.is_whole_node_silent) end_cut_off_launcher();
    if (Clock::now() >= until || has_later_attempt()) return {};
    if (const auto signal = signal_within(outputs_.signal_fd, kAskAgain)) {
      end.is_cancelled = true;
      end.code = 128 + *signal;
      return {};
    }
  }
}

void RunLeader::end_cut_off_launcher() const {
  for (const pid_t pid : descendants(bystander_)) {
    ::kill(pid, SIGKILL);
    std::ignore = ends_within(pid, kLauncherEnd);
  }
}

RunLeader::Next RunLeader::where_to(Cause cause, const std::vector<std::string>& bad_nodes) {
  if (options_.local) return Next::kStep;
  if (cause == Cause::kTimeout || cause == Cause::kPreemption) return Next::kRequeue;
  const bool leaves_nodes =
      cause == Cause::kNodeFailure || (options_.retry.excludes_bad_nodes && !bad_nodes.empty());
  if (!leaves_nodes) return Next::kStep;
  // Uses the remaining nodes of the allocation if the spec allows fewer nodes. They are asked of
  // the controller, because SLURM_JOB_NODELIST still names a dead node.
  if (options_.retry.min_nodes == 0) return Next::kRequeue;
  const auto facts = controller_->job();
  if (!facts) return Next::kRequeue;
  auto nodes = expand_hostlist(facts->nodes).value_or(std::vector<std::string>());
  std::erase_if(nodes, [&](const std::string& node) {
    const auto& bad = history_.bad_nodes();
    return bad.contains(node) &&
           (options_.retry.excludes_bad_nodes ||
            std::find(bad_nodes.begin(), bad_nodes.end(), node) != bad_nodes.end());
  });
  if (static_cast<int>(nodes.size()) < options_.retry.min_nodes) return Next::kRequeue;
  step_on(std::move(nodes));
  return Next::kStep;
}

void RunLeader::step_on(std::vector<std::string> nodes) {
  const auto wanted = static_cast<std::size_t>(std::max(options_.retry.step_nodes, 0));
  if (wanted > 0 && nodes.size() > wanted) nodes.resize(wanted);
  JobLayout job{.nodes = expand_hostlist(env_.get_or("SLURM_JOB_NODELIST", ""))
                             .value_or(std::vector<std::string>()),
                .tasks = parse_tasks_per_node(env_.get_or("SLURM_TASKS_PER_NODE", ""))
                             .value_or(std::vector<int>())};
  if (const auto count = parse_int(env_.get_or("SLURM_NTASKS_PER_NODE", ""));
      count && *count > 0 && *count < 1 << 20)
    job.tasks_per_node = static_cast<int>(*count);
  command_ = step_on_nodes(options_.command, job, nodes);
}

void RunLeader::choose_nodes() {
  if (options_.retry.step_nodes == 0 || !controller_) return;
  auto nodes =
      expand_hostlist(env_.get_or("SLURM_JOB_NODELIST", "")).value_or(std::vector<std::string>());
  if (options_.retry.excludes_bad_nodes) {
    std::erase_if(nodes,
                  [&](const std::string& node) { return history_.bad_nodes().contains(node); });
  }
  if (static_cast<int>(nodes.size()) >= options_.retry.step_nodes) step_on(std::move(nodes));
}

void RunLeader::remember_bad_nodes(const AttemptEnd& end,
                                   const std::vector<std::string>& by_slurm) {
  if (options_.known_bad.file.empty() || !controller_) return;
  auto nodes = bad_nodes_of(end);
  for (const auto& node : by_slurm) {
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
  }
  if (nodes.empty()) return;
  say(remember(options_.known_bad, identity_, run_.directory.filename().string(), nodes,
               end.message));
}

bool RunLeader::requeue(AttemptEnd& end, const std::vector<std::string>& bad_nodes) {
  // Slurm may kill this process as soon as it has the request, so the record is written first.
  std::ignore = outputs_.wait_for_record();
  const auto asked = controller_->requeue(
      options_.retry.excludes_bad_nodes ? bad_nodes : std::vector<std::string>());
  if (!asked && signal_within(outputs_.signal_fd, kSlurmWasFaster)) return true;
  if (!asked) {
    end.message += fmt::format("; Slurm does not queue it again: {}", asked.error().message);
    say(fmt::format("Slurm does not queue the job again: {}", asked.error().message));
    return false;
  }
  std::ignore = signal_within(outputs_.signal_fd, kRequeueLimit);
  return true;
}

bool RunLeader::blame_job(AttemptEnd& end) {
  if (!controller_) return false;
  const auto log = own_log();
  ScriptTrap trap{
      .code = end.code, .at = "", .facts = {}, .restarts = restart_count_of(env_), .log = log};
  if (auto facts = controller_->job(); facts && !facts->state.empty())
    trap.facts = std::move(*facts);
  const bool is_open = blame_jobs_end(end, trap);
  if (end.is_slurms_doing) say(end.message);
  return is_open;
}

int RunLeader::leave(int code) {
  if (bystander_ > 0) std::ignore = ends_within(bystander_, kSurroundingsLimit);
  return outputs_.close(code);
}

/// Handles a job script that ended before it started the step. Records the end of the run, unless
/// Slurm queues the job again.
int end_without_step(const LeadOptions& options, const Env& env, const JobIdentity& identity,
                     const std::filesystem::path& run, const Outputs& outputs) {
  auto& events = outputs.events;
  const auto log = options.local ? std::string() : own_log();
  ScriptTrap trap{.code = *options.never_started,
                  .at = printable(join(options.command, " ")),
                  .facts = {},
                  .restarts = restart_count_of(env),
                  .log = log};
  if (!options.local) {
    if (auto facts = Controller(env, identity.job).job(); facts && !facts->state.empty())
      trap.facts = std::move(*facts);
  }
  auto [end, comes_again] = judge_script_end(trap);
  if (!options.container_words.empty() && !end.is_slurms_doing && !end.is_cancelled) {
    const auto failure = judge_making(options.container_words);
    end.cause = failure.cause;
    end.message = fmt::format("the container could not be made: {}; the ranks were not started",
                              failure.sentence);
    events.record(events::AttemptEnd{
        .code = end.code, .reason = EndReason::kLaunchFailed, .cause = end.cause});
  }
  if (comes_again) {  // judge_requeue() checks the budget at the next start
    events::AttemptEnd recorded{.code = end.code, .reason = end.reason};
    if (end.cause != Cause::kNone) recorded.cause = end.cause;
    events.record(recorded);
  } else {
    record_end(events, run, end);
  }
  outputs.say(end.message);
  return outputs.close(end.code);
}

/// Checks the restart budget after Slurm has started the job again without lead's request. Returns
/// an exit code if the run must end here.
std::optional<int> judge_requeue(const LeadOptions& options, const ClaimedRun& run,
                                 RecordedHistory& read, const Outputs& outputs) {
  auto& events = outputs.events;
  const auto& last = read.last;
  if (!options.retry.is_on() || !run.again || !last.has_attempt || last.is_announced)
    return std::nullopt;
  const auto decision = decide_retry(options.retry, read.history, last.cause);
  if (decision.restarts) {
    if (last.cause == Cause::kRequeue) return std::nullopt;
    read.history.add_restart();
    events.set_attempt(static_cast<int>(last.attempt));
    events.record(
        events::Restarting{.cause = last.cause, .left = decision.left, .by = RestartedBy::kSlurm});
    events.set_attempt(run.attempt);
    return std::nullopt;
  }
  if (decision.why.empty()) return std::nullopt;  // the run had ended, and a user restarts it
  const int code = last.code == 0 ? 1 : last.code;
  const auto message =
      fmt::format("attempt {} was lost ({}); Slurm started the job again, but the run does not: {}",
                  last.attempt, word(last.cause), decision.why);
  events.record(events::Ended{.state = EndState::kFailed, .code = code, .message = message});
  remove_secrets(run.directory);
  outputs.say(message);
  return outputs.close(code);
}

}  // namespace

int lead_run(const LeadOptions& options, const Env& env) {
  const UniqueFd signals = catch_signals();
  raise_file_limit();
  if (auto ready = init_crypto(); !ready) return refuse(ready.error(), kExitInternal);
  const auto identity = identify_job(env, options.local.has_value());
  if (!identity) return refuse(identity.error(), kExitUsage);
  const auto directory = run_directory_of(env, *identity, options.runs, options.name);
  const auto run = claim_run(directory, *identity, options.name, restart_count_of(env));
  if (!run)
    return refuse(run.error(),
                  run.error().code == Errc::kRefused ? kExitRunTaken : kExitRunUnwritable);
  const pid_t bystander =
      options.never_started ? -1 : record_surroundings(run->directory, run->attempt, env);
  const AgentLog log(env, run->directory, "lead", "lead.log");
  auto events = EventLog::open(directory / "events.jsonl");
  if (!events) return refuse(events.error(), kExitRunUnwritable);
  auto loop = EventLoop::create();
  if (!loop) return refuse(loop.error(), kExitInternal);
  Sink out(*loop, STDOUT_FILENO);
  Sink err(*loop, STDERR_FILENO);
  const Outputs outputs{*loop, *events, out, err, signals.get()};
  RecordedHistory read;
  if (run->again) {
    auto history = read_history_file(directory / "events.jsonl", options.always_reports);
    if (!history) return refuse(history.error(), kExitRunUnwritable);  // it holds the budget
    read = std::move(*history);
  }

  if (read.last.is_requeued) {
    return refuse({Errc::kRefused,
                   "the run has completed; Slurm started its job again because it was preempted "
                   "once; there is nothing left to do (dlrun resubmit starts it again)"},
                  0);
  }
  events->set_attempt(run->attempt);
  if (const auto code = judge_requeue(options, *run, read, outputs)) return *code;
  events->record(events::Claimed{.job = identity->job,
                                 .cluster = identity->cluster,
                                 .host = own_host(),
                                 .pid = ::getpid(),
                                 .again = run->again});
  RunLeader leader(options, env, *identity, *run, outputs, bystander, std::move(read.history));
  if (events->cut_bytes() > 0) {
    const auto message =
        fmt::format("events.jsonl had a torn end of {} bytes; it is cut off", events->cut_bytes());
    leader.say(message);
    events->record(events::Warning{.message = message});
  }
  if (options.never_started)
    return end_without_step(options, env, *identity, run->directory, outputs);
  return leader.run();
}

}  // namespace dlrun::agent
