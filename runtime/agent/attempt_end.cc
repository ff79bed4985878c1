// The end of an attempt: which rank or node is to blame, the message for the user, the events for
// the record, and when the attempt is over. attempt.cc has the time before.

#include <signal.h>

#include <algorithm>
#include <utility>

#include "common/hostlist.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "runtime/agent/attempt.h"
#include "runtime/agent/script_end.h"

namespace dlrun::agent {
namespace {

constexpr int kLaunchFailedCode = 77;

std::string how(const RankEnd& end) {
  if (!end.error.empty()) return fmt::format(": {}", printable(end.error));
  if (end.signal != 0) return fmt::format(" was killed by {}", signal_name(end.signal));
  return fmt::format(" exited with code {}", end.code);
}

Json failure_json(const FailedRank& failed) {
  return {{"rank", failed.rank},
          {"host", failed.host},
          {"pid", failed.pid},
          {"code", failed.end.code},
          {"signal", failed.end.signal == 0 ? std::string() : signal_name(failed.end.signal)},
          {"error", failed.end.error}};
}

}  // namespace

double Attempt::seconds_since_start(Clock::time_point now) const {
  return static_cast<double>(
             std::chrono::duration_cast<std::chrono::milliseconds>(now - began_).count()) /
         1000.0;
}

void Attempt::announce() {
  announce_at_.reset();
  end_.code = end_.first_failed->end.code;
  end_.message = sentence();
  if (!blame_container()) outlet_.say(end_.message);
  record_failure(*end_.first_failed);
}

void Attempt::record_failure(const FailedRank& failed) {
  outlet_.record("rank_failed", failure_json(failed));
}

std::string Attempt::sentence() const {
  const auto& failed = *end_.first_failed;
  const auto others = size_ - 1;
  return fmt::format("rank {}{}{}{}", failed.rank,
                     failed.host.empty() ? "" : " on " + printable(failed.host), how(failed.end),
                     others <= 0   ? std::string()
                     : others == 1 ? std::string("; the other rank is ended")
                                   : fmt::format("; the other {} ranks are ended", others));
}

/// Replaces the cause by Slurm's reason if the attempt ended by a signal that Slurm sent. Does
/// nothing if a rank failed on its own.
void Attempt::blame_slurm() {
  if (cancel_reason_.empty() || end_.code == 0) return;
  const bool is_slurms_signal = end_.first_failed && (end_.first_failed->end.signal == SIGTERM ||
                                                      end_.first_failed->end.code == 128 + SIGTERM);
  if (!is_slurms_signal && !(end_.reason == "signalled" && end_.is_cancelled)) return;
  const auto why = why_cancelled(cancel_reason_);
  end_.message = fmt::format("{}; {}", why, end_.message);
  end_.cause = cause_of_cancel(cancel_reason_);
  end_.is_timeout = end_.cause == Cause::kTimeout;
  end_.is_slurms_doing = true;
  // A time limit or a node failure makes the run fail. A preempted or requeued run stays cancelled,
  // because Slurm may start it again.
  if (end_.is_timeout || end_.cause == Cause::kNodeFailure) end_.is_cancelled = false;
  outlet_.say(why);
}

/// Marks the nodes where the step could not be launched as lost, if Slurm launched it on others. If
/// it was launched nowhere, the nodes may not be at fault.
void Attempt::blame_launch() {
  if (end_.reason != "launch_failed" || unlaunched_.empty()) return;
  const auto nodes = expand_hostlist(options_.job_nodes).value_or(std::vector<std::string>());
  const bool some_were_launched =
      !ranks_.empty() || std::any_of(nodes.begin(), nodes.end(), [&](const std::string& node) {
        return !unlaunched_.contains(node);
      });
  if (some_were_launched) end_.lost_nodes.assign(unlaunched_.begin(), unlaunched_.end());
}

void Attempt::on_foreign_line(std::string_view line) {
  const bool was_saved = container_words_.failed_save().empty();
  if (!container_words_.hear(line) || !was_saved || container_words_.failed_save().empty()) return;
  outlet_.say(container_words_.failed_save());
  outlet_.record("warning", {{"message", container_words_.failed_save()}});
}

bool Attempt::blame_container() {
  if (end_.cause == Cause::kImage || end_.cause == Cause::kContainer) return false;
  const auto failure = container_words_.failure();
  if (!failure) return false;
  std::string where;
  if (end_.first_failed) {
    const auto& failed = *end_.first_failed;
    if (failed.pid != 0 || failed.end.signal != 0) return false;  // the container had started
    if (!failed.host.empty()) where = " on " + printable(failed.host);
  } else if (end_.reason != "launch_failed") {
    return false;
  }
  end_.cause = failure->cause;
  end_.message = fmt::format("the container{} could not be started: {}", where, failure->sentence);
  outlet_.say(end_.message);
  return true;
}

/// Decides whether the run is complete after every rank ended with 0. A program that was warned of
/// the time limit may save and exit with 0; it is complete only if it reported so.
void Attempt::judge_zeros() {
  end_.message =
      size_ == 1 ? "the rank ended with 0" : fmt::format("all {} ranks ended with 0", size_);
  if (has_said_done_) return;
  if (is_limit_near_) {
    end_.message += " after the warning of the time limit";
    if (!options_.retries_timeout) return;
    end_.reason = "time_limit";
    end_.code = 128 + SIGTERM;
    end_.message += ", without a word that the program is done";
    outlet_.say(end_.message);
  } else if (is_preemption_near_) {
    end_.message += " after a TERM, as in a preemption's grace time";
    end_.cause = Cause::kPreemption;  // RunLead::plan_after() asks Slurm to confirm it
  }
}

/// Returns the cause of the end, for the decision on a retry. blame_slurm() has run before.
Cause Attempt::cause() const {
  if (is_given_up_ || end_.reason == "not_fit" || end_.reason == "idle_gpus") return Cause::kNone;
  if (end_.cause != Cause::kNone) return end_.cause;
  if (end_.code == 0) return Cause::kNone;
  // This precedes is_cancelled: after a node failure Slurm sends a TERM to requeue the job.
  if (!end_.lost_nodes.empty()) return Cause::kNodeFailure;
  if (end_.is_cancelled) return Cause::kNone;
  if (end_.reason == "hang") return Cause::kHang;
  if (end_.reason == "time_limit") return Cause::kTimeout;
  if (end_.reason == "lead_unheard" && is_preemption_near_) return Cause::kPreemption;
  if (end_.reason == "rank_failed") {
    // A program that was told to save a checkpoint may exit with any code before its time is up.
    if (is_limit_near_ && options_.retries_timeout) return Cause::kTimeout;
    if (is_preemption_near_) return Cause::kPreemption;
    if (is_out_of_memory_ && end_.code == 128 + SIGKILL) return Cause::kOom;
  }
  return Cause::kFailure;
}

/// Finds the suspect nodes: those whose agents disappeared without an exit record, and the node of
/// the process that hangs.
void Attempt::find_suspects() {
  std::map<std::string, int> left_of;  // number of ranks of each host that are not lost
  std::set<std::string> suspects;
  for (const auto& [rank, member] : ranks_)
    left_of[member.hello.host] += lost_.contains(rank) ? 0 : 1;
  // After the launcher's end Slurm ends the agents, so their loss does not speak against the nodes.
  if (end_.reason == "launcher_lost") lost_.clear();
  for (const int rank : lost_) suspects.insert(host_of(rank));
  for (const auto& host : suspects)
    end_.is_whole_node_silent = end_.is_whole_node_silent || left_of[host] == 0;
  if (end_.reason == "hang" && end_.first_failed) suspects.insert(end_.first_failed->host);
  suspects.erase(std::string());
  end_.suspects.assign(suspects.begin(), suspects.end());
}

void Attempt::name_missing(Clock::time_point now) {
  std::vector<int> missing;
  for (int rank = 0; rank < size_; ++rank) {
    if (!ranks_.contains(rank)) missing.push_back(rank);
  }
  struct Node {
    std::string host;
    int here = 0;
    int expected = 0;
  };
  std::map<int, Node> nodes;
  int nnodes = 0;
  for (const auto& [rank, member] : ranks_) {
    const auto& world = member.hello.world;
    auto& node = nodes[world.node_rank];
    node.host = member.hello.host;
    node.expected = world.local_size;
    ++node.here;
    nnodes = world.nnodes;
  }
  const auto job_nodes =
      options_.job_nodes.empty()
          ? std::vector<std::string>()
          : expand_hostlist(options_.job_nodes).value_or(std::vector<std::string>());
  std::vector<std::string> words;
  for (const auto& [index, node] : nodes) {
    if (node.here < node.expected) {
      words.push_back(
          fmt::format("{} ({} of its {})", node.host, node.expected - node.here, node.expected));
    }
  }
  // If a step uses all nodes of the job, Slurm numbers them in the order of the job's node list.
  std::vector<std::string> silent;
  for (std::size_t index = 0; index < job_nodes.size(); ++index) {
    const bool knows_layout = nnodes == 0 || job_nodes.size() == static_cast<std::size_t>(nnodes);
    if (knows_layout && !nodes.contains(static_cast<int>(index)))
      silent.push_back(job_nodes[index]);
  }
  if (!silent.empty()) words.push_back(fmt::format("{} (all)", compress_hostlist(silent)));
  const double waited = seconds_since_start(now);
  const std::string where = words.empty() ? "" : fmt::format("; missing on {}", join(words, ", "));
  end_.message = size_ == 0
                     ? fmt::format("no rank said hello within {} s{}", waited, where)
                     : fmt::format("{} of {} ranks did not say hello within {} s: {} {}{}",
                                   missing.size(), size_, waited,
                                   missing.size() == 1 ? "rank" : "ranks", ranges(missing), where);
  outlet_.record("missing", {{"ranks", missing}, {"seconds", waited}});
}

void Attempt::on_full(std::string message, Clock::time_point now) {
  if (phase_ != Phase::kJoining) return;
  is_given_up_ = true;  // a retry would hit the same limit
  end_for("launch_failed", kLaunchFailedCode, std::move(message), now);
}

void Attempt::finish_if_done(Clock::time_point now) {
  if (phase_ == Phase::kOver || phase_ == Phase::kAutopsy) return;
  const bool all_ended = size_ > 0 && ended_ >= size_;
  if (all_ended && !all_ended_since_) all_ended_since_ = now;
  const bool lag_is_over = step_over_since_ && now >= *step_over_since_ + kConnectionsLag;
  if (phase_ == Phase::kEnding) {
    // No rank is left that could explain the first failure. Only the launcher can still tell how a
    // lost agent died.
    if (announce_at_ && all_ended && (step_is_over_ || !waits_for_launcher())) announce();
    const bool none_connected = std::none_of(ranks_.begin(), ranks_.end(), [](const auto& entry) {
      return entry.second.is_connected && !entry.second.end;
    });
    if (step_is_over_ && !announce_at_ && (none_connected || lag_is_over)) return finish(now);
    if (asked_again_at_ && now >= *asked_again_at_ + kLastPatience) {
      if (announce_at_) announce();
      if (!step_is_over_) end_.message += "; the step does not end and is left behind";
      finish(now);
    }
    return;
  }
  if (phase_ == Phase::kRunning && all_ended) {
    const bool is_late = now >= *all_ended_since_ + kStepLag;
    if (step_is_over_ || is_late) {
      if (step_is_over_ && step_code_ != 0) {
        outlet_.record(
            "warning",
            {{"message", fmt::format("every rank ended with 0, but the step's launcher with {}{}",
                                     step_code_, step_words_.empty() ? "" : ": " + step_words_)}});
      }
      end_.reason = "ok";
      end_.code = 0;
      finish(now);
    }
    return;
  }
  if (!step_is_over_) return;
  // The step has ended while ranks are still awaited.
  if (joined_ == 0 && ranks_.empty()) {
    end_.reason = "launch_failed";
    end_.code = kLaunchFailedCode;
    const auto words = trim(step_words_);
    end_.message = step_code_ == 0 && words.empty()
                       ? "the step ended before any rank said hello; does its command line end in "
                         "`dlrun-agent rank -- PROGRAM`?"
                       : fmt::format("the step could not be launched (exit code {}){}", step_code_,
                                     words.empty() ? "" : fmt::format(": {}", words));
    if (!blame_container()) outlet_.say(end_.message);
    finish(now);
  } else if (lag_is_over) {
    for (int rank = 0; rank < size_; ++rank) {
      const auto found = ranks_.find(rank);
      if (found != ranks_.end() && found->second.end) continue;
      fail_rank(rank,
                {kLaunchFailedCode, 0,
                 found == ranks_.end() ? "never said hello, and the step is over"
                                       : "has no exit record, and the step is over"},
                true, now);
    }
    finish(now);
  }
}

void Attempt::finish(Clock::time_point now) {
  phase_ = Phase::kOver;
  if (held_progress_) outlet_.record("progress", *held_progress_);
  if (std::exchange(is_result_held_, false)) outlet_.record("result", result_);
  for (const auto& failed : later_failures_) record_failure(failed);
  blame_slurm();
  blame_launch();
  if (end_.code != 0 && !end_.is_slurms_doing) blame_container();
  if (end_.reason == "ok") judge_zeros();
  end_.cause = cause();
  end_.is_timeout = end_.is_timeout || end_.cause == Cause::kTimeout;
  end_.step = step_;
  end_.had_grace = is_preemption_near_;
  find_suspects();
  Json fields{{"code", end_.code}, {"reason", end_.reason}};
  if (end_.cause != Cause::kNone) fields["cause"] = word(end_.cause);
  if (end_.first_failed) {
    auto first = failure_json(*end_.first_failed);
    first.erase("pid");
    first.erase("error");
    fields["first_failed"] = first;
  }
  if (end_.is_whole_node_silent) fields["silent"] = end_.suspects;
  if (!end_.lost_nodes.empty()) fields["lost_nodes"] = end_.lost_nodes;
  fields["seconds"] = seconds_since_start(now);
  outlet_.record("attempt_end", fields);
}

}  // namespace dlrun::agent
