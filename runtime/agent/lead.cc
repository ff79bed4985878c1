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
#include "common/text.h"
#include "runtime/agent/attempt_lead.h"
#include "runtime/agent/bad_node_memory.h"
#include "runtime/agent/controller.h"
#include "runtime/agent/descendants.h"
#include "runtime/agent/events.h"
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

constexpr milliseconds kLastWordsLimit{5000};  ///< for somebody to read what lead said at its end
constexpr milliseconds kSurroundingsLimit{3000};  ///< for surroundings.json of a run that was short
constexpr int kTrainerRefusedCode = 78;  ///< the checkpoint folder, or the run, is another's
constexpr off_t kLogTailBytes = 64 << 10;
constexpr seconds kVerdictLimit{
    330};  ///< for Slurm to say that a silent node is down (SlurmdTimeout: five minutes)
constexpr seconds kAskAgain{2};
constexpr milliseconds kLauncherEnd{1000};  ///< from SIGKILL to the end of srun's helper process
constexpr seconds kDiskPatience{60};        ///< for a full disk to have room again
constexpr milliseconds kDiskTriedEvery{500};
constexpr seconds kSlurmWasFaster{
    5};  ///< it refuses to queue a job again that it is queueing again, and ends us soon
constexpr seconds kRequeueLimit{60};  ///< for Slurm to end us once the job is queued again

std::string own_host() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return host.data();
}

/// A failure before any attempt: said, and told by the exit code.
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

  void say(std::string_view line) const { err.push(fmt::format("dlrun: {}\n", line)); }
  /// The record is on the disk, or err has been told that it is not.
  [[nodiscard]] bool wait_for_record() const {
    return agent::wait_for_record({loop, events, err, signal_fd});
  }
  /// Writes the last of everything; the exit code.
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

/// The run is over: that is on its record, and its secrets go.
void record_end(EventLog& events, const std::filesystem::path& run, const AttemptEnd& end) {
  Json fields{
      {"state", end.is_timeout
                    ? "timeout"
                    : (end.is_cancelled ? "cancelled" : (end.code == 0 ? "completed" : "failed"))},
      {"code", end.code},
      {"message", end.message}};
  if (end.is_requeued) fields["requeued"] = true;
  events.record("ended", fields);
  remove_secrets(run);
}

/// Blocks what lead waits for; from now on signals arrive through the descriptor.
UniqueFd catch_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGCHLD, SIG_DFL);  // ignored, the kernel would reap the step and keep its end from us
  ignore_write_signals();
  return UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

/// Waits; the signal that asks for the end, should one come meanwhile.
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

/// The end of the file that this process's standard error goes to; empty where it is none.
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

/// A run's attempts in this start of the job, one after another.
class RunLead {
 public:
  /// bystander: a child of this process that is no part of the run's steps; -1: none.
  RunLead(const LeadOptions& options, const Env& env, const JobIdentity& identity, ClaimedRun run,
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

  /// The process's exit code.
  int lead();
  void say(std::string_view line) const { outputs_.say(line); }

 private:
  enum class Next { kEnd, kStep, kRequeue, kSlurm };
  struct Plan {
    Next next = Next::kEnd;
    Cause cause = Cause::kNone;
    std::vector<std::string> bad_nodes{};
  };

  /// A later attempt has begun elsewhere, while this one waited for Slurm's word: where a node is
  /// cut off with its lead, Slurm starts the job again on others. Says so.
  [[nodiscard]] bool is_superseded() const;
  [[nodiscard]] bool has_later_attempt() const;
  /// The run's folder may be full, or away, for a moment.
  [[nodiscard]] Result<> begin_next_attempt();
  [[nodiscard]] Plan plan_after(AttemptEnd& end);
  /// What Slurm does with the job, where its signals alone have not said so.
  [[nodiscard]] Cause cause_by_slurm(AttemptEnd& end) const;
  /// The nodes that Slurm holds for bad, waited for while a node of the step is silent.
  [[nodiscard]] std::vector<std::string> ask_for_bad_nodes(AttemptEnd& end);
  /// Ends what srun has left behind while the controller cannot be reached. srun's helper process
  /// cancels the step as soon as it reaches the controller again; by then the job may run on other
  /// nodes, where its new step has the same number.
  void end_cut_off_launcher() const;
  [[nodiscard]] Next where_to(Cause cause, const std::vector<std::string>& bad_nodes);
  /// Makes the command one for these nodes alone, of which as many are taken as an attempt has.
  void step_on(std::vector<std::string> nodes);
  /// Where the allocation has spare nodes: the first attempt's nodes.
  void choose_nodes();
  /// health.known_bad: tells later submissions of the nodes that the attempt's end speaks against.
  void remember_bad_nodes(const AttemptEnd& end, const std::vector<std::string>& by_slurm);
  /// Slurm takes the job back. False: it does not, and the run ends here.
  bool requeue(AttemptEnd& end, const std::vector<std::string>& bad_nodes);
  /// srun refuses a step of a job that Slurm is ending: of that end, not of its own. True: the run
  /// is left open.
  [[nodiscard]] bool blame_job(AttemptEnd& end);
  /// The controller is to be asked whether Slurm queues the job again although the run has
  /// completed.
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

int RunLead::lead() {
  choose_nodes();
  for (;;) {
    const bool may_requeue = options_.retry.is_on() &&
                             options_.retry.on.contains(Cause::kTimeout) &&
                             history_.restarts() < options_.retry.max && controller_.has_value();
    bool is_recorded = false;
    auto led = lead_attempt({options_, env_, identity_, run_, events_, outputs_.loop, outputs_.out,
                             outputs_.err, outputs_.signal_fd, command_,
                             controller_ ? &*controller_ : nullptr, bystander_, may_requeue,
                             [&](const AttemptEnd& end) {
                               is_recorded = end.cause == Cause::kNone && !may_be_requeued(end);
                               if (is_recorded) record_end(end);
                             }});
    if (!led) {
      events_.record(
          "ended",
          {{"state", "failed"}, {"code", kExitInternal}, {"message", led.error().message}});
      remove_secrets(run_.directory);
      say(led.error().message);
      return leave(kExitInternal);
    }
    auto& end = *led;
    if (is_recorded) return leave(end.code);
    if (end.code == kExitRunTaken && end.reason == "signalled")
      return leave(end.code);  // another's run
    if (end.reason == "launch_failed" && blame_job(end)) return leave(end.code);
    const auto plan = plan_after(end);
    if (is_superseded()) return leave(kExitRunTaken);  // the record is the later attempt's
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

bool RunLead::has_later_attempt() const {
  return read_attempt(run_.directory).value_or(run_.attempt) != run_.attempt;
}

bool RunLead::is_superseded() const {
  const bool is_another = has_later_attempt();
  if (is_another)
    say(fmt::format("attempt {} of this run is superseded by a later one; this one ends",
                    run_.attempt));
  return is_another;
}

Result<> RunLead::begin_next_attempt() {
  bool is_told = false;
  for (const auto until = Clock::now() + kDiskPatience;;) {
    auto begun = begin_attempt(run_.directory, run_.attempt + 1);
    if (begun || begun.error().code != Errc::kIo || Clock::now() >= until) return begun;
    if (!std::exchange(is_told, true)) {
      say(fmt::format("{}; it is tried again for {} s", begun.error().message,
                      std::chrono::duration_cast<seconds>(kDiskPatience).count()));
    }
    if (signal_within(outputs_.signal_fd, kDiskTriedEvery)) return begun;
  }
}

RunLead::Plan RunLead::plan_after(AttemptEnd& end) {
  if (!options_.retry.is_on() || (end.code == 0 && end.cause == Cause::kNone)) return {};
  // A later attempt goes on from the checkpoints that it finds: those of another run must not be
  // taken for this one's.
  if (options_.always_reports && end.reason == "rank_failed" && end.code == kTrainerRefusedCode)
    return {};
  Plan plan{.cause = controller_ ? cause_by_slurm(end) : end.cause};
  if (end.code == 0) {  // all left with 0 after a TERM: a preemption, or nothing
    if (!controller_ || plan.cause != Cause::kPreemption) return {};
    end.code = 128 + SIGTERM;
    end.is_cancelled = true;
  }
  // Silent in a run that hangs: nobody waits for Slurm's word on such a node, which may take five
  // minutes.
  const bool is_nodes_hang = end.reason == "hang" && !end.lost_nodes.empty();
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
  // A requeue of somebody's, and a preemption, are Slurm's to carry out; it may be at it already.
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
  Json fields{{"cause", word(plan.cause)},
              {"left", decision.left},
              {"by", plan.next == Next::kStep ? "lead" : "slurm"}};
  if (!plan.bad_nodes.empty() && options_.retry.excludes_bad_nodes)
    fields["exclude"] = plan.bad_nodes;
  events_.record("restarting", fields);
  say(fmt::format("attempt {} ended ({}); the run starts again{}, at most {} restart{} left{}",
                  run_.attempt, word(plan.cause),
                  plan.next == Next::kStep ? "" : " once Slurm has queued the job again",
                  decision.left, decision.left == 1 ? "" : "s",
                  decision.is_last_unless_further && decision.left > 0
                      ? "; none if it gets no further either (retry.no_progress)"
                      : ""));
  return plan;
}

Cause RunLead::cause_by_slurm(AttemptEnd& end) const {
  const bool is_without_reason = end.is_cancelled && end.cause == Cause::kNone;
  const bool is_a_guess = end.cause == Cause::kPreemption && !end.is_slurms_doing;
  if (!is_without_reason && !is_a_guess) return end.cause;
  const auto facts = controller_->job();
  if (!facts) return end.cause;
  if (facts->restarts > restart_count_of(env_)) {
    end.is_slurms_doing = true;
    return end.had_grace ? Cause::kPreemption : Cause::kRequeue;
  }
  if (facts->is_preempted)
    return Cause::kPreemption;  // its ranks have ended before their time was up
  return is_a_guess ? Cause::kFailure : Cause::kNone;  // somebody else's TERM
}

std::vector<std::string> RunLead::ask_for_bad_nodes(AttemptEnd& end) {
  const bool may_be_nodes =
      !end.suspects.empty() || end.reason == "launch_failed" || end.reason == "join_timeout";
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

void RunLead::end_cut_off_launcher() const {
  for (const pid_t pid : descendants(bystander_)) {
    ::kill(pid, SIGKILL);
    std::ignore = ends_within(pid, kLauncherEnd);
  }
}

RunLead::Next RunLead::where_to(Cause cause, const std::vector<std::string>& bad_nodes) {
  if (options_.local) return Next::kStep;
  if (cause == Cause::kTimeout || cause == Cause::kPreemption) return Next::kRequeue;
  const bool leaves_nodes =
      cause == Cause::kNodeFailure || (options_.retry.excludes_bad_nodes && !bad_nodes.empty());
  if (!leaves_nodes) return Next::kStep;
  // On what is left of the allocation, where the spec has room for that. SLURM_JOB_NODELIST still
  // names a dead node.
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

void RunLead::step_on(std::vector<std::string> nodes) {
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

void RunLead::choose_nodes() {
  if (options_.retry.step_nodes == 0 || !controller_) return;
  auto nodes =
      expand_hostlist(env_.get_or("SLURM_JOB_NODELIST", "")).value_or(std::vector<std::string>());
  if (options_.retry.excludes_bad_nodes) {
    std::erase_if(nodes,
                  [&](const std::string& node) { return history_.bad_nodes().contains(node); });
  }
  if (static_cast<int>(nodes.size()) >= options_.retry.step_nodes) step_on(std::move(nodes));
}

void RunLead::remember_bad_nodes(const AttemptEnd& end, const std::vector<std::string>& by_slurm) {
  if (options_.known_bad.file.empty() || !controller_) return;
  auto nodes = bad_nodes_of(end);
  for (const auto& node : by_slurm) {
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
  }
  if (nodes.empty()) return;
  say(remember(options_.known_bad, identity_, run_.directory.filename().string(), nodes,
               end.message));
}

bool RunLead::requeue(AttemptEnd& end, const std::vector<std::string>& bad_nodes) {
  // Slurm may end us the moment it has heard: the record must be on the disk before.
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

bool RunLead::blame_job(AttemptEnd& end) {
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

int RunLead::leave(int code) {
  if (bystander_ > 0) std::ignore = ends_within(bystander_, kSurroundingsLimit);
  return outputs_.close(code);
}

/// The job's script ended before its step: that is the run's end, unless Slurm has queued the job
/// again.
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
    events.record("attempt_end",
                  {{"code", end.code}, {"reason", "launch_failed"}, {"cause", word(end.cause)}});
  }
  if (comes_again) {  // the next start asks the budget (judge_requeue)
    Json fields{{"code", end.code}, {"reason", end.reason}};
    if (end.cause != Cause::kNone) fields["cause"] = word(end.cause);
    events.record("attempt_end", fields);
  } else {
    record_end(events, run, end);
  }
  outputs.say(end.message);
  return outputs.close(end.code);
}

/// Slurm has started the job again. Where lead did not ask for that itself, the budget is asked
/// now; a code where the run is to end here.
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
    events.record("restarting",
                  {{"cause", word(last.cause)}, {"left", decision.left}, {"by", "slurm"}});
    events.set_attempt(run.attempt);
    return std::nullopt;
  }
  if (decision.why.empty()) return std::nullopt;  // the run had ended; somebody wants it again
  const int code = last.code == 0 ? 1 : last.code;
  const auto message =
      fmt::format("attempt {} was lost ({}); Slurm started the job again, but the run does not: {}",
                  last.attempt, word(last.cause), decision.why);
  events.record("ended", {{"state", "failed"}, {"code", code}, {"message", message}});
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
    if (!history) return refuse(history.error(), kExitRunUnwritable);  // the budget is on it
    read = std::move(*history);
  }

  if (read.last.is_requeued) {
    return refuse(
        {Errc::kRefused,
         "the run has completed; Slurm started its job again because it was preempted once; "
         "there is nothing left to do (dlrun resubmit starts it anew)"},
        0);
  }
  events->set_attempt(run->attempt);
  if (const auto code = judge_requeue(options, *run, read, outputs)) return *code;
  events->record("claimed", {{"job", identity->job},
                             {"cluster", identity->cluster},
                             {"host", own_host()},
                             {"pid", ::getpid()},
                             {"again", run->again}});
  RunLead lead(options, env, *identity, *run, outputs, bystander, std::move(read.history));
  if (events->cut_bytes() > 0) {
    const auto message =
        fmt::format("events.jsonl had a torn end of {} bytes; it is cut off", events->cut_bytes());
    lead.say(message);
    events->record("warning", {{"message", message}});
  }
  if (options.never_started)
    return end_without_step(options, env, *identity, run->directory, outputs);
  return lead.lead();
}

}  // namespace dlrun::agent
