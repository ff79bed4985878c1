// The start of lead: claims the run, opens its record and lead's standard streams, and decides
// whether the run may start again after a requeue. RunLeader then leads the attempts.
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
#include "runtime/agent/controller.h"
#include "runtime/agent/descendants.h"
#include "runtime/agent/event_log.h"
#include "runtime/agent/exit_codes.h"
#include "runtime/agent/notifier.h"
#include "runtime/agent/program_start.h"
#include "runtime/agent/protocol.h"
#include "runtime/agent/record_wait.h"
#include "runtime/agent/remembered_bad_nodes.h"
#include "runtime/agent/run_attempt.h"
#include "runtime/agent/run_chain.h"
#include "runtime/agent/run_claim.h"
#include "runtime/agent/run_leader.h"
#include "runtime/agent/script_end.h"
#include "runtime/agent/secrets.h"
#include "runtime/agent/sink.h"
#include "runtime/agent/surroundings.h"

namespace dlrun::agent {
namespace {

/// Prints why lead starts no attempt, and returns code.
int refuse(const Error& error, int code) {
  std::ignore = write_all(STDERR_FILENO, fmt::format("dlrun: {}\n", error.message));
  return code;
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

/// Handles a job script that ended before it started the step. Records the end of the run, unless
/// Slurm queues the job again.
int end_without_step(const LeadOptions& options, const Env& env, const JobIdentity& identity,
                     const std::filesystem::path& run, const LeadOutputs& outputs) {
  auto& events = outputs.events;
  // An allocation of the user (uses_existing_allocation) does not end with the script, so Slurm's
  // facts about the allocation do not explain the script's end.
  const bool asks_slurm = !options.local_ranks && !options.uses_existing_allocation;
  const auto log = asks_slurm ? tail_of_job_log() : std::string();
  ScriptAtExit script{.code = *options.failed_script_code,
                      .at = printable(join(options.command, " ")),
                      .facts = {},
                      .restarts = restart_count_of(env),
                      .log = log};
  if (asks_slurm) {
    if (auto facts = SlurmController(env, identity.job).job(); facts && !facts->state.empty())
      script.facts = std::move(*facts);
  }
  auto [end, may_be_queued_again] = judge_script_end(script);
  if (!options.container_error.empty() && !end.is_slurms_doing && !end.is_cancelled) {
    const auto failure = classify_container_error(options.container_error);
    end.cause = failure.cause;
    end.message = fmt::format("the container could not be made: {}; the ranks were not started",
                              failure.sentence);
    events.record(events::AttemptEnd{
        .code = end.code, .reason = EndReason::kLaunchFailed, .cause = end.cause});
  }
  if (may_be_queued_again) {  // judge_requeue() checks the budget at the next start
    events::AttemptEnd recorded{.code = end.code, .reason = end.reason};
    if (end.cause != Cause::kNone) recorded.cause = end.cause;
    events.record(recorded);
  } else {
    record_end(events, run, end);
  }
  outputs.say(end.message);
  return outputs.close(end.code);
}

/// Returns what started this attempt after the previous one was lost: the run's chain started its
/// next job, or Slurm requeued the job.
RestartedBy restarted_by(const ClaimedRun& run) {
  return run.number_in_chain.value_or(0) > 0 ? RestartedBy::kChain : RestartedBy::kSlurm;
}

/// Checks the restart budget after Slurm or the run's chain has started the run again without a
/// request of lead. Records the restart if the retry options allow it. If they refuse it, records
/// the end of the run and returns the exit code. Does nothing if a user has started the job again.
std::optional<int> judge_requeue(const LeadOptions& options, const ClaimedRun& run,
                                 RecordedHistory& recorded, const LeadOutputs& outputs) {
  auto& events = outputs.events;
  const auto& last = recorded.last;
  if (!options.retry.is_enabled() || !run.was_claimed_before || !last.has_attempt ||
      last.is_restart_recorded)
    return std::nullopt;
  const auto decision = decide_retry(options.retry, recorded.history, last.cause);
  if (decision.grants_restart) {
    if (last.cause == Cause::kRequeue) return std::nullopt;
    recorded.history.add_restart();
    events.set_attempt(static_cast<int>(last.attempt));
    events.record(
        events::Restarting{.cause = last.cause, .left = decision.left, .by = restarted_by(run)});
    events.set_attempt(run.attempt);
    return std::nullopt;
  }
  // No cause calls for a restart after this attempt, so a user has started the job again.
  if (decision.why.empty()) return std::nullopt;
  const int code = last.code == 0 ? 1 : last.code;
  const auto message =
      fmt::format("attempt {} was lost ({}); {}, but the run does not start again: {}",
                  last.attempt, word(last.cause),
                  restarted_by(run) == RestartedBy::kChain ? "the next job of its chain has started"
                                                           : "Slurm started the job again",
                  decision.why);
  events.record(events::Ended{.state = EndState::kFailed, .code = code, .message = message});
  remove_secrets(run.directory);
  outputs.say(message);
  return outputs.close(code);
}

/// Claims the run. Returns lead's exit code instead if nothing is left to do, or if lead may not
/// work on the run.
tl::expected<ClaimedRun, int> claim_or_leave(const LeadOptions& options, const Env& env,
                                             const JobIdentity& identity) {
  const auto directory = run_directory_of(env, identity, options.runs, options.name);
  const auto code_of = [](const Error& error) {
    return error.code == Errc::kRefused ? kExitRunTaken : kExitRunUnwritable;
  };
  const auto number_in_chain = job_number_in_chain(options, env);
  if (number_in_chain.value_or(0) > 0) {
    const auto unneeded = why_unneeded(directory, options, env, identity.job);
    if (!unneeded) return tl::unexpected(refuse(unneeded.error(), code_of(unneeded.error())));
    if (*unneeded)
      return tl::unexpected(refuse({Errc::kRefused, (*unneeded)->message}, (*unneeded)->code));
  }
  auto run = claim_run(directory, identity, options.name, restart_count_of(env), number_in_chain);
  if (!run) return tl::unexpected(refuse(run.error(), code_of(run.error())));
  return std::move(*run);
}

/// Ends a run whose first job ended before it claimed the run. A later job of the chain may not
/// start such a run: the user cancelled the first job, or the dependency of that job was never
/// fulfilled. Returns the exit code; nullopt if the run has begun, or if this is the first job.
std::optional<int> end_unbegun(const ClaimedRun& run, const LeadOutputs& outputs) {
  if (run.was_claimed_before || run.number_in_chain.value_or(0) == 0) return std::nullopt;
  constexpr const char* kMessage =
      "the first job of the run's chain (retry.chain) ended before it started the run, so that no "
      "later job starts the run";
  outputs.events.set_attempt(run.attempt);
  outputs.events.record(
      events::Ended{.state = EndState::kCancelled, .code = 1, .message = kMessage});
  remove_secrets(run.directory);
  outputs.say(kMessage);
  return outputs.close(1);
}

/// Reports the problems that lead has found before the first attempt. The run starts nevertheless.
void report_start_problems(const RunLeader& leader, EventLog& events,
                           const Result<std::unique_ptr<Notifier>>& notifier) {
  const auto warn = [&](const std::string& message) {
    leader.say(message);
    events.record(events::Warning{.message = message});
  };
  if (!notifier)
    warn(fmt::format(
        "notify, track: {}; the run sends no notices, and no values to an MLflow server",
        notifier.error().message));
  if (events.cut_bytes() > 0)
    warn(fmt::format("events.jsonl had an incomplete end; lead has cut off these {} bytes",
                     events.cut_bytes()));
}

}  // namespace

int run_lead(const LeadOptions& options, const Env& env) {
  const UniqueFd signals = catch_signals();
  raise_file_limit();
  if (auto ready = init_crypto(); !ready) return refuse(ready.error(), kExitInternal);
  const auto identity = identify_job(env, options.local_ranks.has_value());
  if (!identity) return refuse(identity.error(), kExitUsage);
  const auto run = claim_or_leave(options, env, *identity);
  if (!run) return run.error();
  const auto notifier = start_notifier(options, env, *identity, *run);
  const bool has_notifier = notifier && *notifier != nullptr;
  const pid_t child_not_to_kill =
      has_notifier ? (*notifier)->helper()
      : options.failed_script_code
          ? -1
          : start_recording_surroundings(run->directory, run->attempt, env);
  const AgentLog log(env, run->directory, "lead", "lead.log");
  auto events = EventLog::open(run->directory / "events.jsonl");
  if (!events) return refuse(events.error(), kExitRunUnwritable);
  auto loop = EventLoop::create();
  if (!loop) return refuse(loop.error(), kExitInternal);
  Sink out(*loop, STDOUT_FILENO);
  Sink err(*loop, STDERR_FILENO);
  const LeadOutputs outputs{*loop, *events,       out,
                            err,   signals.get(), has_notifier ? notifier->get() : nullptr};
  if (has_notifier) {
    events->observe([&notifier](const RunEvent& event, int attempt, const std::string& component) {
      (*notifier)->on_event(event, attempt, component);
    });
  }
  RecordedHistory recorded;
  if (run->was_claimed_before) {
    auto history = read_history_file(run->directory / "events.jsonl", options.program_is_bundled);
    // Without the history, lead does not know how many restarts are left.
    if (!history) return refuse(history.error(), kExitRunUnwritable);
    recorded = std::move(*history);
  }

  if (recorded.last.is_requeued_after_end) {
    return refuse(
        {Errc::kRefused,
         "the run has completed; Slurm started its job again because the job was preempted "
         "once; there is nothing left to do (dlrun resubmit starts the run again)"},
        0);
  }
  if (const auto code = end_unbegun(*run, outputs)) return *code;
  events->set_attempt(run->attempt);
  if (const auto code = judge_requeue(options, *run, recorded, outputs)) return *code;
  events->record(events::Claimed{.job = identity->job,
                                 .cluster = identity->cluster,
                                 .host = own_host(),
                                 .pid = ::getpid(),
                                 .was_claimed_before = run->was_claimed_before});
  RunLeader leader(options, env, *identity, *run, outputs, child_not_to_kill,
                   std::move(recorded.history));
  report_start_problems(leader, *events, notifier);
  if (options.failed_script_code)
    return end_without_step(options, env, *identity, run->directory, outputs);
  return leader.run();
}

}  // namespace dlrun::agent
