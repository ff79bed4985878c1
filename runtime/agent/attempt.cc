// An attempt while ranks join and run: messages, signals and deadlines. attempt_progress.cc has the
// program's reports, attempt_health.cc checks and hangs, attempt_autopsy.cc the autopsy,
// attempt_end.cc the end, attempt_judge.cc the judgement on it.
#include "runtime/agent/attempt.h"

#include <signal.h>

#include <algorithm>
#include <array>

#include "common/hostlist.h"
#include "common/run_events.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "runtime/agent/exit_codes.h"
#include "runtime/agent/intervals.h"
#include "runtime/agent/rank_table.h"

namespace dlrun::agent {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kLaterFailuresLimit = 64;
constexpr milliseconds kStoppedIsFresh{3000};
constexpr milliseconds kLookAgain{250};

/// The likelihood that the end of a rank is the reason for the attempt's end. Higher values are
/// more likely.
enum class Weight {
  kConsequence,  ///< the end of another rank caused this one
  kUnclear,      ///< possibly a consequence: a program may exit or abort because a peer is gone
  kCause,
};

Weight weight(const RankEnd& end) {
  if (end.blamed_rank) return *end.blamed_rank < 0 ? Weight::kConsequence : Weight::kCause;
  constexpr std::array kOwnFaults{SIGKILL, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGSYS, SIGXCPU};
  const bool is_own_fault =
      std::find(kOwnFaults.begin(), kOwnFaults.end(), end.signal) != kOwnFaults.end();
  return is_own_fault || !end.error.empty() ? Weight::kCause : Weight::kUnclear;
}

}  // namespace

Attempt::Attempt(AttemptOptions options, AttemptOutlet& outlet, Clock::time_point now)
    : options_(std::move(options)),
      outlet_(outlet),
      began_(now),
      size_(options_.ranks),
      hang_watch_(options_.hang_after) {}

bool Attempt::wants(int rank) const {
  return phase_ == Phase::kJoining && !ranks_.contains(rank) && (size_ == 0 || rank < size_);
}

std::string Attempt::host_of(int rank) const {
  if (const auto found = ranks_.find(rank);
      found != ranks_.end() && !found->second.hello.host.empty()) {
    return found->second.hello.host;
  }
  if (const auto found = task_ends_.find(rank); found != task_ends_.end())
    return found->second.host;
  return {};
}

void Attempt::on_hello(int rank, const Hello& hello, Clock::time_point now) {
  // This includes ranks that join after the first unfit one, so that the next attempt avoids all
  // unfit nodes.
  if (!hello.unfit.empty() && end_.reason != EndReason::kNotFit) lose_node(hello.host);
  if (phase_ != Phase::kJoining || ranks_.contains(rank)) return;
  if (size_ == 0) size_ = hello.world.size;
  ranks_[rank] = Rank{hello, true, std::nullopt, now};
  if (hello.world.rank != rank || hello.world.size != size_) {
    return fail_rank(rank,
                     {kExitInternal, 0,
                      fmt::format("says that it is rank {} of {}; lead took it for rank {} of {}",
                                  hello.world.rank, hello.world.size, rank, size_)},
                     true, now);
  }
  fitness_.note(rank, hello.host, hello.world.local_size, hello.unfit, now);
  if (fitness_.has_complaint()) return judge_fitness(now);
  if (++joined_ < size_) return;
  std::vector<std::string> hosts;
  std::set<std::string> seen;
  for (const auto& [number, member] : ranks_) {
    if (seen.insert(member.hello.host).second) hosts.push_back(member.hello.host);
  }
  outlet_.record(events::Joined{
      .ranks = size_, .hosts = compress_hostlist(hosts), .seconds = seconds_since_start(now)});
  phase_ = Phase::kRunning;
  end_.has_run = true;
  if (!options_.tries_collective) hang_watch_.on_start(now);
  start();
}

void Attempt::start() {
  const auto& first = ranks_.at(0).hello;
  for (const auto& [rank, member] : ranks_) {
    outlet_.send(rank, to_rank::Start{.addr = member.hello.addr,
                                      .master_addr = first.addr,
                                      .master_port = first.port,
                                      .marked = options_.marks_errors});
  }
}

void Attempt::on_exit(int rank, RankEnd end, Clock::time_point now) {
  const auto found = ranks_.find(rank);
  outlet_.send(rank, to_rank::Noted{});
  if (found == ranks_.end() || found->second.end) return;
  if (end.is_unheard) {
    found->second.end = std::move(end);
    ++ended_;
    end_unheard(rank, now);
  } else if (end.code != 0 || end.signal != 0) {
    if (end.code == 0) end.code = 128 + end.signal;
    fail_rank(rank, std::move(end), true, now);
  } else {
    found->second.end = end;
    ++ended_;
  }
  finish_if_done(now);
}

void Attempt::on_lost(int rank, std::string_view why, Clock::time_point now) {
  const auto found = ranks_.find(rank);
  if (found == ranks_.end()) return;
  found->second.is_connected = false;
  if (!found->second.end) {
    if (const auto told = task_ends_.find(rank);
        told != task_ends_.end() && told->second.end.code != 0) {
      fail_rank(rank, told->second.end, true, now);
    } else {
      // An agent leaves without an exit record only if it is killed or its node is lost. The
      // launcher may soon report more.
      lost_.insert(rank);
      fail_rank(
          rank,
          {128 + SIGKILL, 0, fmt::format("its agent is lost without an exit record: {}", why)},
          false, now);
    }
  }
  finish_if_done(now);
}

void Attempt::fail_rank(int rank, RankEnd end, bool cause_is_known, Clock::time_point now) {
  auto& member = ranks_[rank];
  if (member.end) return;
  member.end = end;
  ++ended_;
  FailedRank failed{rank, host_of(rank), member.hello.pid, std::move(end)};
  if (const auto blamed = failed.end.blamed_rank.value_or(rank);
      blamed != rank && ranks_.contains(blamed)) {
    failed.rank = blamed;
    failed.host = host_of(blamed);
    failed.pid = ranks_[blamed].hello.pid;
  }
  if (autopsy_) autopsy_->drop(rank);
  if (phase_ == Phase::kAutopsy) return;  // the hang is the cause; debuggers can end processes
  if (is_ending()) return reconsider(std::move(failed), cause_is_known, now);
  end_.reason = EndReason::kRankFailed;
  end_.code = failed.end.code;
  end_.first_failed = failed;
  begin_ending(now);
  if (!cause_is_known) {
    announce_at_ = now + kCauseWait;
  } else if (last_sleep_ && now < last_sleep_->end + kCauseWait) {
    // The records that arrived while lead was stopped are read one by one: a later one may be
    // older.
    announce_at_ = now + kCulpritWait;
  } else if (size_ == 1 || weight(failed.end) == Weight::kCause) {
    announce();
  } else {
    announce_at_ = now + kCulpritWait;
  }
}

bool Attempt::waits_for_launcher() const {
  return announce_at_ && lost_.contains(end_.first_failed->rank);
}

void Attempt::reconsider(FailedRank failed, bool cause_is_known, Clock::time_point now) {
  const auto& end = failed.end;
  const bool is_own =
      cause_is_known && end.is_own.value_or(end.signal != SIGTERM && end.signal != SIGKILL);
  const bool may_be_another = announce_at_ && !waits_for_launcher();
  // No agent is killed this soon after the first failure, so an agent that is found lost now was
  // lost before it.
  const auto new_weight = !cause_is_known ? Weight::kCause
                          : is_own        ? weight(end)
                                          : Weight::kConsequence;
  const bool explains = may_be_another && new_weight > weight(end_.first_failed->end);
  if (explains) {
    std::swap(*end_.first_failed, failed);
    end_.code = end_.first_failed->end.code;
    if (!cause_is_known) announce_at_ = now + kCauseWait;
    if (cause_is_known && new_weight == Weight::kCause) announce();
  }
  if ((explains || is_own) && later_failures_.size() < kLaterFailuresLimit)
    later_failures_.push_back(std::move(failed));
}

void Attempt::on_launcher_killed(int signal, Clock::time_point now) {
  // Connections to agents may have broken first, as a consequence of the launcher's end.
  if (phase_ > Phase::kRunning && !waits_for_launcher()) return;
  announce_at_.reset();
  end_.first_failed.reset();
  end_for(
      EndReason::kLauncherLost, 128 + signal,
      fmt::format("the step's launcher was killed by {}; its ranks are ended", signal_name(signal)),
      now);
}

void Attempt::end_unheard(int rank, Clock::time_point now) {
  const bool is_first_in_doubt = announce_at_ && !waits_for_launcher();
  if (phase_ == Phase::kOver || (is_ending() && !is_first_in_doubt)) return;
  announce_at_.reset();
  end_.first_failed.reset();
  const int code = 128 + SIGTERM;
  if (last_sleep_ && now < last_sleep_->end + kCauseWait) {
    const auto stopped =
        std::chrono::duration_cast<std::chrono::seconds>(last_sleep_->time).count();
    return end_for(EndReason::kLeadUnheard, code,
                   fmt::format("lead was stopped for {} s; the ranks' agents have ended them, as "
                               "they must when they do not hear lead",
                               stopped),
                   now);
  }
  if (!signs_.is_preemption_near) end_.cause = Cause::kNodeFailure;
  end_for(EndReason::kLeadUnheard, code,
          fmt::format("the agent of rank {} on {} did not hear lead and has ended the rank: the "
                      "network between their nodes was cut",
                      rank, host_of(rank)),
          now);
}

void Attempt::begin_ending(Clock::time_point now, int step_signal) {
  if (phase_ == Phase::kEnding || phase_ == Phase::kOver) return;
  phase_ = Phase::kEnding;
  ending_since_ = now;
  hang_watch_.off();
  outlet_.broadcast(to_rank::End{step_signal});
  if (joined_ == 0 && !step_is_over_) {
    stops_asked_ = 1;
    outlet_.stop_step(false);
  }
}

void Attempt::on_task_end(int rank, std::string_view host, int code, int signal,
                          Clock::time_point now) {
  const RankEnd end{signal != 0 ? 128 + signal : code, signal, {}};
  const bool was_lost = lost_.erase(rank) > 0;
  if (was_lost && announce_at_ && end_.first_failed->rank == rank && end.code != 0) {
    end_.first_failed->end = end;
    ranks_[rank].end = end;
    return announce();
  }
  const bool is_new = task_ends_.emplace(rank, TaskEnd{std::string(host), end}).second;
  if (is_new && phase_ == Phase::kJoining && !ranks_.contains(rank) && end.code != 0) {
    fail_rank(rank, end, true, now);
    finish_if_done(now);
  }
}

void Attempt::on_cancelled(std::string_view reason) {
  if (signs_.cancel_reason.empty()) signs_.cancel_reason = reason.substr(0, 256);
}

void Attempt::end_for(EndReason reason, int code, std::string message, Clock::time_point now) {
  end_.reason = reason;
  end_.code = code;
  end_.message = std::move(message);
  outlet_.say(end_.message);
  if (reason == EndReason::kHang && phase_ == Phase::kRunning) return begin_autopsy(now);
  begin_ending(now);
}

void Attempt::on_node_failure(std::string_view nodes, Clock::time_point now) {
  const auto lost = expand_hostlist(nodes).value_or(std::vector<std::string>());
  end_.lost_nodes.insert(end_.lost_nodes.end(), lost.begin(), lost.end());
  if (phase_ != Phase::kRunning && phase_ != Phase::kJoining) return;
  end_for(EndReason::kNodeFailure, 128 + SIGKILL,
          fmt::format("Slurm has lost {}; its ranks are ended", printable(nodes)), now);
}

void Attempt::on_launch_failure(std::string_view node, std::string_view why,
                                Clock::time_point now) {
  if (phase_ == Phase::kOver || signs_.unlaunched.size() >= kLaterFailuresLimit) return;
  signs_.unlaunched.emplace(node.substr(0, 256));
  // srun ends the tasks that it did start. The failures of their ranks are only consequences.
  const bool is_sruns_doing = phase_ == Phase::kEnding && end_.reason == EndReason::kRankFailed &&
                              (waits_for_launcher() || end_.first_failed->end.signal == SIGTERM);
  if (phase_ == Phase::kEnding && !is_sruns_doing) return;
  announce_at_.reset();
  end_.first_failed.reset();
  end_for(EndReason::kLaunchFailed, kExitLaunchFailed,
          fmt::format("the step could not be launched on {}: {}", printable(node),
                      printable(why.substr(0, 1024))),
          now);
}

void Attempt::on_limit_ahead(std::chrono::milliseconds time_left, Clock::time_point now) {
  if (phase_ != Phase::kRunning || limit_at_) return;
  limit_at_ = now + time_left;
  hang_watch_.off();
}

void Attempt::on_step_end(int code, std::string_view words, Clock::time_point now) {
  step_is_over_ = true;
  step_over_since_ = now;
  step_code_ = code;
  step_words_ = words;
  finish_if_done(now);
}

void Attempt::on_own_signal(int signal, Clock::time_point now) {
  if (phase_ == Phase::kOver) return;
  const bool is_checkpoint = signal == SIGUSR1;
  const bool passes = is_checkpoint && options_.forward_usr1 && phase_ == Phase::kRunning;
  outlet_.record(events::Signal{.signal = signal_name(signal),
                                .where = "lead",
                                .word = passes          ? SignalWord::kCheckpoint
                                        : is_checkpoint ? SignalWord::kNone
                                                        : SignalWord::kAbort});
  if (passes && !std::exchange(usr1_is_passed_, true)) {
    outlet_.broadcast(to_rank::SignalAnswer{signal, SignalWord::kCheckpoint});
  }
  if (is_checkpoint) return;
  if (is_ending()) {
    // A signal while the attempt ends cancels the job. The first failure keeps its name and code.
    end_.is_cancelled = true;
    end_.is_slurms_doing = end_.is_slurms_doing || !end_.lost_nodes.empty();
    if (phase_ == Phase::kAutopsy) return begin_ending(now, signal);
    if (!asked_again_at_) asked_again_at_ = now;
    return;
  }
  end_.reason = EndReason::kSignalled;
  end_.code = 128 + signal;
  end_.is_cancelled = true;
  end_.message = fmt::format("ended by {}", signal_name(signal));
  outlet_.say(end_.message);
  begin_ending(now, signal);
  finish_if_done(now);
}

void Attempt::on_rank_signal(int rank, int signal, Clock::time_point now) {
  if (is_ending() || phase_ == Phase::kOver) return;
  // Slurm's grace time signals steps only. A TERM that reaches ranks but not lead is therefore the
  // preemption for which `checkpoint.signal_before` prepares.
  const bool may_checkpoint = signal == SIGUSR1 || signal == SIGTERM;
  const bool passes = may_checkpoint && options_.forward_usr1;
  const auto answer = passes              ? SignalWord::kCheckpoint
                      : signal == SIGUSR1 ? SignalWord::kNone
                                          : SignalWord::kAbort;
  if (signals_seen_.insert(signal).second) {
    outlet_.record(events::Signal{.signal = signal_name(signal),
                                  .where = fmt::format("rank {} on {}", rank, host_of(rank)),
                                  .word = answer});
  }
  if (answer == SignalWord::kNone) return outlet_.send(rank, to_rank::SignalAnswer{signal, answer});
  if (passes) {
    // Either all ranks checkpoint or none: a collective in the middle of a checkpoint would hang
    // otherwise. This rank gets its own reply because it waits for one about this signal.
    outlet_.send(rank, to_rank::SignalAnswer{signal, answer});
    signs_.is_preemption_near = signs_.is_preemption_near || signal == SIGTERM;
    hang_watch_.off();
    if (!std::exchange(usr1_is_passed_, true)) {
      outlet_.broadcast(to_rank::SignalAnswer{signal, SignalWord::kCheckpoint});
    }
    return;
  }
  end_.reason = EndReason::kSignalled;
  end_.code = 128 + signal;
  end_.is_cancelled = true;
  end_.message = fmt::format("ended by {}, which reached rank {} on {}", signal_name(signal), rank,
                             host_of(rank));
  outlet_.say(end_.message);
  begin_ending(now, signal);
}

void Attempt::give_up(int code, std::string_view message, Clock::time_point now) {
  if (phase_ == Phase::kOver) return;
  signs_.is_given_up = true;
  end_.reason = EndReason::kSignalled;
  end_.code = code;
  end_.message = message;
  end_.first_failed.reset();
  announce_at_.reset();
  outlet_.say(message);
  begin_ending(now);
}

void Attempt::on_warning(int rank, std::string_view message) {
  outlet_.say(fmt::format("rank {} on {}: {}", rank, host_of(rank), printable(message)));
  outlet_.record(
      events::Warning{.message = std::string(message), .rank = rank, .host = host_of(rank)});
}

void Attempt::on_table(int rank, std::int64_t from) {
  if (phase_ != Phase::kRunning) return;
  if (table_.empty()) {
    std::vector<Endpoint> table;
    for (const auto& [number, member] : ranks_) {
      table.push_back({member.hello.addr, static_cast<std::uint16_t>(member.hello.port)});
    }
    table_ = table_pages(table);
  }
  const auto page = static_cast<std::size_t>(from) / kTablePageRanks;
  if (from < 0 || from % kTablePageRanks != 0 || page >= table_.size()) return;
  outlet_.send_text(rank, table_[page]);
}

void Attempt::tick(Clock::time_point now) {
  if (phase_ == Phase::kOver) return;
  flush_progress(now);
  flush_result(now);
  if (announce_at_ && *announce_at_ <= now) announce();
  if (phase_ == Phase::kJoining && now >= began_ + options_.join_timeout) {
    name_missing(now);
    end_.reason = EndReason::kJoinTimeout;
    end_.code = kExitNotJoined;
    outlet_.say(end_.message);
    begin_ending(now);
  }
  if (phase_ <= Phase::kRunning && fitness_.has_complaint()) judge_fitness(now);
  if (phase_ == Phase::kRunning) {
    if (auto sentence = hang_watch_.due(now)) {
      // A stopped process explains the hang. Its agent reports it every second.
      const bool is_stopped = stopped_.rank >= 0 && now < stopped_.heard + kStoppedIsFresh;
      is_stopped ? end_for_stopped(now) : end_for_hang(std::move(*sentence), now);
    } else {
      hang_since_.reset();
      hang_looked_at_.reset();
    }
    if (phase_ == Phase::kRunning && limit_at_ && now >= *limit_at_) {
      end_for(EndReason::kTimeLimit, 128 + SIGTERM, "the time limit is near", now);
    }
  }
  look_at_autopsy(now);
  if (phase_ == Phase::kEnding && !step_is_over_) {
    if (stops_asked_ < 1 && now >= ending_since_ + kStepStoppedAfter) {
      stops_asked_ = 1;
      outlet_.stop_step(false);
    }
    if (stops_asked_ < 2 && now >= ending_since_ + kStepKilledAfter) {
      stops_asked_ = 2;
      outlet_.stop_step(true);
    }
  }
  finish_if_done(now);
}

std::optional<Attempt::Clock::time_point> Attempt::next_deadline() const {
  std::optional<Clock::time_point> next;
  const auto at = [&](Clock::time_point when) {
    if (!next || when < *next) next = when;
  };
  if (announce_at_) at(*announce_at_);
  if (const auto due = hang_watch_.next_deadline(); due && phase_ == Phase::kRunning)
    at(hang_looked_at_ ? *hang_looked_at_ + kLookAgain : *due);
  if (const auto when = fitness_.deadline(); when && phase_ <= Phase::kRunning) at(*when);
  if (limit_at_ && phase_ == Phase::kRunning) at(*limit_at_);
  if (phase_ == Phase::kJoining) at(began_ + options_.join_timeout);
  if (phase_ == Phase::kEnding && !step_is_over_ && stops_asked_ < 2) {
    at(ending_since_ + (stops_asked_ < 1 ? kStepStoppedAfter : kStepKilledAfter));
  }
  if (asked_again_at_ && phase_ == Phase::kEnding) at(*asked_again_at_ + kLeftBehindAfter);
  if (step_over_since_) at(*step_over_since_ + kConnectionsLag);
  if (all_ended_since_ && phase_ == Phase::kRunning) at(*all_ended_since_ + kStepLag);
  if (held_progress_) at(last_progress_ + kProgressEvery);
  if (is_result_held_) at(last_result_ + kProgressEvery);
  return next;
}

}  // namespace dlrun::agent
