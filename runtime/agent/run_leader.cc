#include "runtime/agent/run_leader.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "common/files.h"
#include "common/hostlist.h"
#include "common/log.h"
#include "common/text.h"
#include "runtime/agent/address.h"
#include "runtime/agent/agent_log.h"
#include "runtime/agent/component_step.h"
#include "runtime/agent/controller.h"
#include "runtime/agent/descendants.h"
#include "runtime/agent/event_log.h"
#include "runtime/agent/exit_codes.h"
#include "runtime/agent/program_start.h"
#include "runtime/agent/protocol.h"
#include "runtime/agent/record_wait.h"
#include "runtime/agent/remembered_bad_nodes.h"
#include "runtime/agent/run_attempt.h"
#include "runtime/agent/run_chain.h"
#include "runtime/agent/run_claim.h"
#include "runtime/agent/script_end.h"
#include "runtime/agent/secrets.h"
#include "runtime/agent/sink.h"
#include "runtime/agent/step_on_nodes.h"
#include "runtime/agent/surroundings.h"

namespace dlrun::agent {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr off_t kLogTailBytes = 64 << 10;
/// Time to write lead's last output to a slow reader.
constexpr milliseconds kLastOutputLimit{5000};
/// Time to wait for surroundings.json at the end of a short run.
constexpr milliseconds kSurroundingsLimit{3000};
/// Time for Slurm to report that a silent node is down (SlurmdTimeout: five minutes).
constexpr seconds kVerdictLimit{330};
constexpr seconds kAskSlurmEvery{2};
/// Time for srun's helper to end after SIGKILL.
constexpr milliseconds kSrunHelperEndsWithin{1000};
constexpr seconds kDiskFullLimit{60};  ///< time for a full disk to have room again
constexpr milliseconds kDiskTriedEvery{500};
/// Time to wait for Slurm's signal after Slurm refused lead's requeue. Slurm refuses the requeue if
/// it is already requeueing the job.
constexpr seconds kSlurmSignalLimit{5};
constexpr seconds kRequeueLimit{60};  ///< time for Slurm to end this process after a requeue

/// Waits for limit, or until a signal asks for the end. Returns this signal; nullopt after limit.
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

}  // namespace

std::string tail_of_job_log() {
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

void LeadOutputs::say(std::string_view line) const {
  log_info("said", {{"message", line}});
  err.push(fmt::format("dlrun: {}\n", line));
}

bool LeadOutputs::wait_for_record() const {
  return agent::wait_for_record({loop, events, err, signal_fd});
}

void LeadOutputs::end_notices() const {
  if (notifier == nullptr) return;
  if (const auto problem = notifier->finish()) say(*problem);
}

int LeadOutputs::close(int code) const {
  std::ignore = wait_for_record();
  end_notices();
  if (const auto failure = events.take_failure()) {
    say(fmt::format("{}; the run's record is incomplete", failure->message));
  }
  const auto until = Clock::now() + kLastOutputLimit;
  while (out.held_bytes() + err.held_bytes() > 0 && Clock::now() < until)
    loop.run_once(milliseconds(100));
  return code;
}

void record_end(EventLog& events, const std::filesystem::path& run, const AttemptEnd& end) {
  events.record(events::Ended{.state = end.is_timeout     ? EndState::kTimeout
                                       : end.is_cancelled ? EndState::kCancelled
                                       : end.code == 0    ? EndState::kCompleted
                                                          : EndState::kFailed,
                              .code = end.code,
                              .message = end.message,
                              .is_requeued_after_end = end.is_requeued_after_end});
  remove_secrets(run);
}

int RunLeader::run() {
  choose_nodes();
  for (;;) {
    const bool continues_after_limit =
        options_.retry.is_enabled() && options_.retry.on.contains(Cause::kTimeout) &&
        history_.restart_count() < options_.retry.max && controller_.has_value() &&
        !options_.uses_existing_allocation && (!run_.number_in_chain || next_in_chain());
    bool is_recorded = false;
    auto led = run_attempt({options_, env_, identity_, run_, events_, outputs_.loop, outputs_.out,
                            outputs_.err, outputs_.signal_fd, command_,
                            controller_ ? &*controller_ : nullptr, outputs_.notifier,
                            child_not_to_kill_, continues_after_limit, [&](const AttemptEnd& end) {
                              is_recorded = end.cause == Cause::kNone && !may_be_requeued(end);
                              if (is_recorded) record_end(end);
                            }});
    if (!led) {
      events_.record(events::Ended{
          .state = EndState::kFailed, .code = kExitInternal, .message = led.error().message});
      is_over_ = true;
      remove_secrets(run_.directory);
      say(led.error().message);
      return leave(kExitInternal);
    }
    auto& end = *led;
    if (is_recorded) return leave(end.code);
    // The attempt was superseded: the record now belongs to another lead.
    if (end.code == kExitRunTaken && end.reason == EndReason::kSignalled) return leave(end.code);
    if (end.reason == EndReason::kLaunchFailed) {
      const bool may_be_queued_again = judge_failed_launch(end);
      if (may_be_queued_again) return leave(end.code);
    }
    const auto plan = plan_after(end);
    log_info("decided what follows the attempt", {{"attempt", run_.attempt},
                                                  {"next", word_of(plan.next)},
                                                  {"cause", word(plan.cause)},
                                                  {"end", word(end.reason)},
                                                  {"message", end.message}});
    if (report_if_superseded()) return leave(kExitRunTaken);  // the later attempt owns the record
    remember_bad_nodes(end, plan.bad_nodes);
    if (plan.next == Next::kEnd) {
      end.is_requeued_after_end =
          may_be_requeued(end) && controller_->requeues_by_itself(history_.was_preempted());
      record_end(end);
      return leave(end.code);
    }
    if (plan.next == Next::kSlurm || plan.next == Next::kChain) return leave(end.code);
    if (plan.next == Next::kRequeue) {
      if (!requeue(end, plan)) record_end(end);
      return leave(end.code);
    }
    if (auto begun = write_next_attempt(); !begun) {
      end.message += fmt::format("; the run cannot start again: {}", begun.error().message);
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
    case Next::kAttempt:
      return "another attempt";
    case Next::kRequeue:
      return "requeue";
    case Next::kSlurm:
      return "wait for Slurm";
    case Next::kChain:
      return "the next job of the chain";
  }
  return "";
}

bool RunLeader::has_later_attempt() const {
  return read_attempt(run_.directory).value_or(run_.attempt) != run_.attempt;
}

bool RunLeader::report_if_superseded() const {
  const bool is_another = has_later_attempt();
  if (is_another)
    say(fmt::format("a later attempt has superseded attempt {0} of this run; attempt {0} ends now",
                    run_.attempt));
  return is_another;
}

Result<> RunLeader::write_next_attempt() {
  bool is_reported = false;
  for (const auto until = Clock::now() + kDiskFullLimit;;) {
    auto begun = write_attempt(run_.directory, run_.attempt + 1);
    if (begun || begun.error().code != Errc::kIo || Clock::now() >= until) return begun;
    if (!std::exchange(is_reported, true)) {
      say(fmt::format("{}; lead retries for {} s", begun.error().message,
                      std::chrono::duration_cast<seconds>(kDiskFullLimit).count()));
    }
    if (signal_within(outputs_.signal_fd, kDiskTriedEvery)) return begun;
  }
}

RunLeader::Plan RunLeader::plan_after(AttemptEnd& end) {
  if (!options_.retry.is_enabled() || (end.code == 0 && end.cause == Cause::kNone)) return {};
  // The trainer refused a checkpoint folder of another run. A retry would find the same folder.
  if (options_.program_is_bundled && end.reason == EndReason::kRankFailed &&
      end.code == kTrainerRefused)
    return {};
  Plan plan{.cause = controller_ ? cause_according_to_slurm(end) : end.cause};
  if (end.code == 0) {  // all ranks ended with 0 after a TERM: retry only after a real preemption
    if (!controller_ || plan.cause != Cause::kPreemption) return {};
    end.code = 128 + SIGTERM;
    end.is_cancelled = true;
  }
  // If nodes are silent in a hung run, the cause is kNodeFailure already, without Slurm's verdict,
  // which may take five minutes. If retry.on lacks node_failure, the cause is changed to kHang, so
  // that `hang` in retry.on can restart the run.
  const bool is_hang_of_nodes = end.reason == EndReason::kHang && !end.bad_nodes.empty();
  if (is_hang_of_nodes && !options_.retry.on.contains(Cause::kNodeFailure))
    plan.cause = Cause::kHang;
  if (controller_ && !is_hang_of_nodes &&
      (plan.cause == Cause::kFailure || plan.cause == Cause::kHang)) {
    plan.bad_nodes = ask_for_bad_nodes(end);
    if (end.is_cancelled) return {};
    if (!plan.bad_nodes.empty()) plan.cause = Cause::kNodeFailure;
  }
  if (plan.cause == Cause::kHang) plan.bad_nodes = end.suspects;
  if (plan.cause == Cause::kNodeFailure && plan.bad_nodes.empty()) plan.bad_nodes = end.bad_nodes;
  history_.add_attempt(end.step, plan.cause, options_.program_is_bundled || !end.has_run);
  const auto decision = decide_retry(options_.retry, history_, plan.cause);
  if (!decision.grants_restart) {
    if (!decision.why.empty()) {
      end.message += fmt::format("; the run does not start again: {}", decision.why);
      say(fmt::format("the run does not start again: {}", decision.why));
    }
    return {};
  }
  if (refuse_new_allocation(plan, end) || !plan_more_memory(plan, end)) return {};
  // Slurm itself carries out a user's requeue, and may have begun already.
  if (plan.cause == Cause::kRequeue) return {.next = Next::kSlurm, .cause = plan.cause};
  for (const auto& node : plan.bad_nodes) history_.add_bad_node(node);
  const bool slurm_requeues_preempted =
      plan.cause == Cause::kPreemption && controller_ && controller_->requeues_by_itself();
  const bool slurm_requeues =
      !options_.uses_existing_allocation &&
      (slurm_requeues_preempted || (end.is_slurms_doing && plan.cause != Cause::kTimeout));
  if (has_later_attempt())
    return plan;  // Slurm has started the run elsewhere, and the lead there owns the record
  plan.next = slurm_requeues ? Next::kSlurm
              : plan.memory  ? Next::kRequeue
                             : choose_next(is_hang_of_nodes ? Cause::kNodeFailure : plan.cause,
                                          plan.bad_nodes);
  if (plan.next == Next::kEnd) {
    end.message += fmt::format("; the run does not start again: {}", why_not_continued(plan.cause));
    say(fmt::format("the run does not start again: {}", why_not_continued(plan.cause)));
    return plan;
  }
  history_.add_restart();
  announce_restart(plan, decision);
  return plan;
}

Cause RunLeader::cause_according_to_slurm(AttemptEnd& end) const {
  const bool is_without_reason = end.is_cancelled && end.cause == Cause::kNone;
  const bool is_a_guess = end.cause == Cause::kPreemption && !end.is_slurms_doing;
  if (!is_without_reason && !is_a_guess) return end.cause;
  const auto facts = controller_->job();
  if (!facts) return end.cause;
  if (facts->restarts > restart_count_of(env_)) {
    end.is_slurms_doing = true;
    return end.had_grace ? Cause::kPreemption : Cause::kRequeue;
  }
  if (facts->is_preempted) return Cause::kPreemption;  // the ranks ended within the grace time
  // Slurm did not preempt the job, so the TERM did not come from Slurm.
  return is_a_guess ? Cause::kFailure : Cause::kNone;
}

std::vector<std::string> RunLeader::ask_for_bad_nodes(AttemptEnd& end) {
  const bool may_be_nodes = !end.suspects.empty() || end.reason == EndReason::kLaunchFailed ||
                            end.reason == EndReason::kJoinTimeout;
  const auto nodes = nodes_of_job(env_);
  if (!may_be_nodes || nodes.empty()) return {};
  const auto suspects = end.suspects.empty() ? nodes : compress_hostlist(end.suspects);
  if (end.is_whole_node_silent)
    say(fmt::format("no heartbeats from {}; lead asks Slurm for the node state", suspects));
  for (const auto until = Clock::now() + (end.is_whole_node_silent ? kVerdictLimit : seconds(0));
       ;) {
    const auto bad = controller_->bad_nodes(suspects);
    if (bad && !bad->empty()) return *bad;
    if (!bad && end.is_whole_node_silent) kill_srun_leftovers();
    if (Clock::now() >= until || has_later_attempt()) return {};
    if (const auto signal = signal_within(outputs_.signal_fd, kAskSlurmEvery)) {
      end.is_cancelled = true;
      end.code = 128 + *signal;
      return {};
    }
  }
}

void RunLeader::kill_srun_leftovers() const {
  for (const pid_t pid : descendants_without(child_not_to_kill_)) {
    ::kill(pid, SIGKILL);
    std::ignore = reap_within(pid, kSrunHelperEndsWithin);
  }
}

std::string RunLeader::how_run_restarts(const Plan& plan) {
  if (plan.next == Next::kChain) return " in the next job of its chain";
  const std::string text = " once Slurm has queued the job again";
  if (!plan.memory) return text;
  return fmt::format("{} with {} MiB per {}", text, plan.memory->mib,
                     plan.memory->is_per_cpu ? "CPU" : "node");
}

void RunLeader::announce_restart(const Plan& plan, const RetryDecision& decision) {
  events::Restarting recorded{.cause = plan.cause,
                              .left = decision.left,
                              .by = plan.next == Next::kAttempt ? RestartedBy::kLead
                                    : plan.next == Next::kChain ? RestartedBy::kChain
                                                                : RestartedBy::kSlurm};
  if (options_.retry.excludes_bad_nodes) recorded.exclude = plan.bad_nodes;
  if (plan.memory) recorded.memory_mib = plan.memory->mib;
  events_.record(recorded);
  say(fmt::format("attempt {} ended ({}); the run starts again{}, at most {} restart{} left{}",
                  run_.attempt, word(plan.cause),
                  plan.next == Next::kAttempt ? std::string() : how_run_restarts(plan),
                  decision.left, decision.left == 1 ? "" : "s",
                  decision.next_needs_progress && decision.left > 0
                      ? "; no restart if the next attempt makes no progress (retry.no_progress)"
                      : ""));
}

bool RunLeader::refuse_new_allocation(const Plan& plan, AttemptEnd& end) const {
  if (!options_.uses_existing_allocation) return false;
  const bool needs_requeue = plan.cause == Cause::kTimeout || plan.cause == Cause::kPreemption ||
                             plan.cause == Cause::kRequeue ||
                             (plan.cause == Cause::kOom && options_.retry.memory_factor > 0);
  const bool avoids_nodes = plan.cause == Cause::kNodeFailure ||
                            (options_.retry.excludes_bad_nodes && !plan.bad_nodes.empty());
  if (!needs_requeue && (!avoids_nodes || options_.retry.min_nodes > 0)) return false;
  constexpr std::string_view kWhy =
      "the allocation belongs to another script or shell, so the run must not queue its job again";
  end.message += fmt::format("; the run does not start again: {}", kWhy);
  say(fmt::format("the run does not start again: {}", kWhy));
  return true;
}

RunLeader::Next RunLeader::choose_next(Cause cause, const std::vector<std::string>& bad_nodes) {
  if (options_.local_ranks) return Next::kAttempt;
  if (cause == Cause::kTimeout || cause == Cause::kPreemption) {
    if (!run_.number_in_chain) return Next::kRequeue;
    return next_in_chain() ? Next::kChain : Next::kEnd;
  }
  const bool avoids_nodes =
      cause == Cause::kNodeFailure || (options_.retry.excludes_bad_nodes && !bad_nodes.empty());
  if (!avoids_nodes) return Next::kAttempt;
  // If the spec allows fewer nodes, the next attempt uses the remaining nodes of the allocation.
  // The controller lists the remaining nodes; SLURM_JOB_NODELIST still contains a dead node.
  if (options_.retry.min_nodes == 0) return Next::kRequeue;
  const auto facts = controller_->job();
  if (!facts) return options_.uses_existing_allocation ? Next::kEnd : Next::kRequeue;
  auto nodes = expand_hostlist(facts->nodes).value_or(std::vector<std::string>());
  std::erase_if(nodes, [&](const std::string& node) {
    const auto& bad = history_.bad_nodes();
    return bad.contains(node) &&
           (options_.retry.excludes_bad_nodes ||
            std::find(bad_nodes.begin(), bad_nodes.end(), node) != bad_nodes.end());
  });
  if (static_cast<int>(nodes.size()) < options_.retry.min_nodes)
    return options_.uses_existing_allocation ? Next::kEnd : Next::kRequeue;
  use_nodes(std::move(nodes));
  return Next::kAttempt;
}

std::optional<std::string> RunLeader::next_in_chain() const {
  return first_that_may_still_run(
      later_jobs(run_.directory, *run_.number_in_chain, options_.retry.chain), env_);
}

std::string_view RunLeader::why_not_continued(Cause cause) const {
  const bool needs_later_job = cause == Cause::kTimeout || cause == Cause::kPreemption;
  return run_.number_in_chain && needs_later_job
             ? "no further job of its chain is queued (retry.chain)"
             : "Slurm does not show enough good nodes in the allocation (resources.nodes)";
}

void RunLeader::cancel_later_jobs() const {
  const auto later = later_jobs(run_.directory, *run_.number_in_chain, options_.retry.chain);
  if (later.empty() || !controller_) return;
  const auto dependencies = controller_->dependencies_of_pending_jobs();
  if (!dependencies) return;
  if (auto done = controller_->cancel_pending(jobs_to_cancel(later, *dependencies)); !done)
    log_info("later jobs of the chain stay queued", {{"message", done.error().message}});
}

void RunLeader::use_nodes(std::vector<std::string> nodes) {
  const auto wanted = static_cast<std::size_t>(std::max(options_.retry.step_nodes, 0));
  if (wanted > 0 && nodes.size() > wanted) nodes.resize(wanted);
  JobLayout job{.nodes = expand_hostlist(env_.get_or("SLURM_JOB_NODELIST", ""))
                             .value_or(std::vector<std::string>()),
                .task_counts = parse_tasks_per_node(env_.get_or("SLURM_TASKS_PER_NODE", ""))
                                   .value_or(std::vector<int>())};
  if (const auto count = parse_int(env_.get_or("SLURM_NTASKS_PER_NODE", ""));
      count && *count > 0 && *count < 1 << 20)
    job.ntasks_per_node = static_cast<int>(*count);
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
  if (static_cast<int>(nodes.size()) >= options_.retry.step_nodes) use_nodes(std::move(nodes));
}

void RunLeader::remember_bad_nodes(const AttemptEnd& end,
                                   const std::vector<std::string>& bad_nodes_of_plan) {
  if (options_.known_bad.file.empty() || !controller_) return;
  auto nodes = bad_nodes_of(end);
  for (const auto& node : bad_nodes_of_plan) {
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
  }
  if (nodes.empty()) return;
  say(remember_as_bad(options_.known_bad, identity_, run_.directory.filename().string(), nodes,
                      end.message));
}

bool RunLeader::plan_more_memory(Plan& plan, AttemptEnd& end) const {
  if (plan.cause != Cause::kOom || options_.retry.memory_factor <= 0 || !controller_) return true;
  const auto facts = controller_->job();
  const auto present_mib = facts ? facts->memory_mib : 0;
  if (const auto grown = grown_memory(options_.retry, present_mib)) {
    plan.memory = JobMemory{*grown, facts->has_memory_per_cpu};
    return true;
  }
  const std::string why =
      !facts ? "Slurm does not tell the job's memory: " + facts.error().message
      : present_mib == 0
          ? std::string("Slurm does not tell how much memory the job has requested")
          : fmt::format("its memory is {} MiB already, and retry.grow.max allows {} MiB",
                        present_mib, options_.retry.memory_limit_mib);
  end.message += fmt::format("; the run does not start again: {}", why);
  say(fmt::format("the run does not start again: {}", why));
  return false;
}

bool RunLeader::requeue(AttemptEnd& end, const Plan& plan) {
  // Slurm may kill this process as soon as it has the request, so the record is written first.
  std::ignore = outputs_.wait_for_record();
  const auto asked = controller_->requeue(
      options_.retry.excludes_bad_nodes ? plan.bad_nodes : std::vector<std::string>(), plan.memory);
  // If Slurm refuses the new memory, the job is cancelled. A signal then does not mean that Slurm
  // queues the job again.
  const bool is_cancelled = !asked && asked.error().code == Errc::kRefused;
  if (!asked && !is_cancelled && signal_within(outputs_.signal_fd, kSlurmSignalLimit)) return true;
  if (!asked) {
    end.message += fmt::format("; Slurm does not queue the job again: {}", asked.error().message);
    say(fmt::format("Slurm does not queue the job again: {}", asked.error().message));
    return false;
  }
  std::ignore = signal_within(outputs_.signal_fd, kRequeueLimit);
  return true;
}

bool RunLeader::judge_failed_launch(AttemptEnd& end) {
  if (!controller_ || options_.uses_existing_allocation) return false;
  const auto log = tail_of_job_log();
  ScriptAtExit script{
      .code = end.code, .at = "", .facts = {}, .restarts = restart_count_of(env_), .log = log};
  if (auto facts = controller_->job(); facts && !facts->state.empty())
    script.facts = std::move(*facts);
  auto judged = agent::judge_failed_launch(std::move(end), script);
  end = std::move(judged.end);
  if (end.is_slurms_doing) say(end.message);
  return judged.may_be_queued_again;
}

int RunLeader::leave(int code) {
  // The record must be on the disk before lead waits for anything else.
  const bool is_chain_over = is_over_ && run_.number_in_chain.has_value();
  if (outputs_.notifier != nullptr || is_chain_over) std::ignore = outputs_.wait_for_record();
  if (is_chain_over) cancel_later_jobs();
  outputs_.end_notices();
  // With a notifier, child_not_to_kill_ is the notifier's helper, and end_notices() has waited for
  // it.
  if (child_not_to_kill_ > 0 && outputs_.notifier == nullptr)
    std::ignore = reap_within(child_not_to_kill_, kSurroundingsLimit);
  return outputs_.close(code);
}

}  // namespace dlrun::agent
