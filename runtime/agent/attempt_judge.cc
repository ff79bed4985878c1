#include "runtime/agent/attempt_judge.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "common/hostlist.h"
#include "common/text.h"
#include "runtime/agent/script_end.h"

namespace dlrun::agent {
namespace {

/// Replaces the cause by Slurm's reason if the attempt ended by a signal that Slurm sent. Does
/// nothing if a rank failed on its own.
void blame_slurm(Judgement& judged, const EndSigns& signs) {
  auto& end = judged.end;
  const auto& reason = signs.cancel_reason;
  if (reason.empty() || end.code == 0) return;
  const auto& failed = end.first_failed;
  // If Slurm's TERM reaches the ranks before it reaches lead, their programs get USR1, so that they
  // save a checkpoint (is_preemption_near). A program may then exit with any code, or be killed by
  // USR1.
  const bool is_slurms_signal =
      failed && (failed->end.signal == SIGTERM || failed->end.code == 128 + SIGTERM ||
                 signs.is_preemption_near);
  if (!is_slurms_signal && !(end.reason == EndReason::kSignalled && end.is_cancelled)) return;
  const auto why = why_cancelled(reason);
  end.message = fmt::format("{}; {}", why, end.message);
  end.cause = cause_of_cancel(reason);
  end.is_timeout = end.cause == Cause::kTimeout;
  end.is_slurms_doing = true;
  // A time limit or a node failure makes the run fail. A preempted or requeued run stays cancelled,
  // because Slurm may start it again.
  if (end.is_timeout || end.cause == Cause::kNodeFailure) end.is_cancelled = false;
  judged.lines.push_back(why);
}

/// Makes the time limit the cause if its warning (checkpoint.signal_before) killed a program that
/// does not handle the signal. A restart within this job would have no time to make progress.
void blame_warning(Judgement& judged, const EndFacts& facts) {
  auto& end = judged.end;
  if (!facts.signs.is_limit_near || end.reason != EndReason::kRankFailed || !end.first_failed)
    return;
  const auto& failed = end.first_failed->end;
  const bool is_killed_by_warning = failed.signal == SIGUSR1 || failed.code == 128 + SIGUSR1;
  if (!is_killed_by_warning || end.cause != Cause::kNone || end.is_cancelled ||
      !end.bad_nodes.empty())
    return;
  end.cause = Cause::kTimeout;
  judged.lines.push_back(
      "SIGUSR1 is the warning of the time limit (checkpoint.signal_before), and the program does "
      "not handle it");
  end.message += "; " + judged.lines.back();
}

/// If Slurm launched the step on some nodes but could not launch it on others, marks the others as
/// bad. If Slurm launched it nowhere, the nodes may not be at fault.
void mark_unlaunched_bad(AttemptEnd& end, const EndFacts& facts) {
  const auto& unlaunched = facts.signs.unlaunched;
  if (end.reason != EndReason::kLaunchFailed || unlaunched.empty()) return;
  const auto nodes = expand_hostlist(facts.job_nodes).value_or(std::vector<std::string>());
  const bool some_were_launched =
      facts.has_any_rank || std::any_of(nodes.begin(), nodes.end(), [&](const std::string& node) {
        return !unlaunched.contains(node);
      });
  if (some_were_launched) end.bad_nodes.assign(unlaunched.begin(), unlaunched.end());
}

/// Decides whether the run is complete after every rank ended with 0. A program that was warned of
/// the time limit may save and exit with 0 before it is done. If the run restarts after a time
/// limit, it is therefore complete only if the program has reported that it is done.
void judge_zero_codes(Judgement& judged, const EndFacts& facts) {
  auto& end = judged.end;
  end.message = facts.rank_count == 1 ? "the rank ended with 0"
                                      : fmt::format("all {} ranks ended with 0", facts.rank_count);
  if (facts.signs.has_reported_done) return;
  if (facts.signs.is_limit_near) {
    end.message += " after the warning of the time limit";
    if (!facts.retries_timeout) return;
    end.reason = EndReason::kTimeLimit;
    end.code = 128 + SIGTERM;
    end.message += ", without a report that the program is done";
    judged.lines.push_back(end.message);
  } else if (facts.signs.is_preemption_near) {
    end.message += " after a TERM, as in a preemption's grace time";
    end.cause = Cause::kPreemption;  // lead asks Slurm to confirm it before the next attempt
  }
}

/// Returns the cause of the end, for the decision on a retry. Call it after the functions above,
/// which may set end.cause and end.bad_nodes.
Cause cause_of(const AttemptEnd& end, const EndFacts& facts) {
  const auto& signs = facts.signs;
  if (signs.is_given_up || end.reason == EndReason::kPreflightFailed ||
      end.reason == EndReason::kIdleGpus)
    return Cause::kNone;
  if (end.cause != Cause::kNone) return end.cause;
  if (end.code == 0) return Cause::kNone;
  // Checked before is_cancelled: after a node failure Slurm sends a TERM, and then requeues the
  // job.
  if (!end.bad_nodes.empty()) return Cause::kNodeFailure;
  if (end.is_cancelled) return Cause::kNone;
  if (end.reason == EndReason::kHang) return Cause::kHang;
  if (end.reason == EndReason::kTimeLimit) return Cause::kTimeout;
  if (end.reason == EndReason::kLeadUnheard && signs.is_preemption_near) return Cause::kPreemption;
  if (end.reason == EndReason::kRankFailed) {
    // A program that was told to save a checkpoint may exit with any code before its time is up.
    if (signs.is_limit_near && facts.retries_timeout) return Cause::kTimeout;
    if (signs.is_preemption_near) return Cause::kPreemption;
    if (signs.is_out_of_memory && end.code == 128 + SIGKILL) return Cause::kOom;
  }
  return Cause::kFailure;
}

/// Sets the suspect nodes: nodes with an agent that disappeared without an exit record, and the
/// node of the process that hangs. Also sets is_whole_node_silent and heard_hosts.
void set_suspects(AttemptEnd& end, const EndFacts& facts) {
  for (const auto& [host, count] : facts.not_lost_count_of_host) {
    if (count > 0) end.heard_hosts.insert(host);
  }
  std::set<std::string> suspects;
  // After srun's end Slurm ends the agents, so a lost agent does not make its node suspect.
  if (end.reason != EndReason::kLauncherLost) suspects = facts.hosts_of_lost_ranks;
  end.is_whole_node_silent =
      std::any_of(suspects.begin(), suspects.end(), [&](const std::string& host) {
        const auto found = facts.not_lost_count_of_host.find(host);
        return found == facts.not_lost_count_of_host.end() || found->second == 0;
      });
  if (end.reason == EndReason::kHang && end.first_failed) suspects.insert(end.first_failed->host);
  suspects.erase(std::string());
  end.suspects.assign(suspects.begin(), suspects.end());
}

}  // namespace

bool blame_container(AttemptEnd& end, const std::optional<ContainerFailure>& failure) {
  if (!failure || end.cause == Cause::kImage || end.cause == Cause::kContainer) return false;
  std::string where;
  if (end.first_failed) {
    const auto& failed = *end.first_failed;
    if (failed.pid != 0 || failed.end.signal != 0) return false;  // the container had started
    if (!failed.host.empty()) where = " on " + printable(failed.host);
  } else if (end.reason != EndReason::kLaunchFailed) {
    return false;
  }
  end.cause = failure->cause;
  end.message = fmt::format("the container{} could not be started: {}", where, failure->sentence);
  return true;
}

Judgement judge(EndFacts facts) {
  Judgement judged{.end = std::move(facts.end)};
  auto& end = judged.end;
  blame_slurm(judged, facts.signs);
  blame_warning(judged, facts);
  mark_unlaunched_bad(end, facts);
  if (end.code != 0 && !end.is_slurms_doing && blame_container(end, facts.container_failure))
    judged.lines.push_back(end.message);
  if (end.reason == EndReason::kOk) judge_zero_codes(judged, facts);
  end.cause = cause_of(end, facts);
  end.is_timeout = end.is_timeout || end.cause == Cause::kTimeout;
  end.had_grace = facts.signs.is_preemption_near;
  end.was_warned = facts.signs.is_preemption_near || facts.signs.is_limit_near;
  set_suspects(end, facts);
  return judged;
}

}  // namespace dlrun::agent
