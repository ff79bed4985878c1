#include "runtime/agent/rank_state.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace dlrun::agent {

using std::chrono::milliseconds;
using std::chrono::seconds;

void RankState::on_check_end(const std::optional<to_lead::CheckFailed>& failure,
                             Clock::time_point now) {
  if (is_ending()) return record_exit(128 + SIGTERM, SIGTERM, {}, now);
  if (failure) {
    phase_ = Phase::kUnfit;
    return outlet_.send(*failure);
  }
  outlet_.send(to_lead::Checked{});
  // If the connection broke while the message was sent, no program starts.
  if (is_ending()) return record_exit(128 + SIGTERM, SIGTERM, {}, now);
  outlet_.start_program();
}

bool RankState::on_signal(int signal, bool came_by_guard, Clock::time_point now) {
  if (!signals_.record(signal, came_by_guard, now)) return false;
  const bool asks_to_end = signal != SIGUSR1 && signal != SIGUSR2;
  if (signal == SIGUSR2 || !lead_.was_connected) {
    // Lead does not decide about USR2, and there may be no lead: pass the signal to the program.
    if (is_running()) signals_.pass_on_later(signal, now);
    if (phase_ == Phase::kJoining && asks_to_end) {
      phase_ = Phase::kOver;
      exit_ = Exit{128 + signal, now};
    }
    return true;
  }
  if (!lead_.is_open) return true;  // lead is gone, so the program is being ended already
  outlet_.send(to_lead::Signal{signal});
  // The deadline is not set if the connection broke while the signal was sent.
  if (lead_.is_open && asks_to_end && !lead_.answer_until) lead_.answer_until = now + kAnswerWait;
  return true;
}

void RankState::on_answer(std::optional<SignalDecision> decision, Clock::time_point now) {
  lead_.answer_until.reset();
  if (decision == SignalDecision::kCheckpoint && !std::exchange(is_checkpoint_asked_, true))
    signals_.pass_on_later(SIGUSR1, now);
}

void RankState::on_lead_closed(std::string_view why, bool is_exiting, Clock::time_point now) {
  lead_.is_open = false;
  if (phase_ == Phase::kOver) return;
  outlet_.say(fmt::format("lead is gone ({}); {}", why, consequence()));
  begin_end(false, is_exiting, now);
}

void RankState::on_guard_gone(Clock::time_point now) {
  record_held_end(now);
  record_exit(128 + SIGKILL, SIGKILL, {}, now);
}

void RankState::on_program_end(int code, int signal, Clock::time_point now) {
  if (held_end_) return;
  // If Slurm signals the whole tree, the program can get the signal before its agent. Lead is to
  // hear of the signal first, so that it does not take the end for a failure of this rank.
  const bool may_be_slurms_signal = signal == SIGTERM && lead_.is_open && is_running() &&
                                    !end_.is_requested && !signals_.has_come(signal);
  if (may_be_slurms_signal) {
    held_end_ = {.code = code, .signal = signal, .until = now + SignalRelay::kTreeWait};
    return;
  }
  // A program that its agent interrupted has not succeeded, even if it exits with 0.
  if (!end_.own_reason.empty())
    return record_exit(128 + SIGTERM, SIGTERM, "ended by its agent: " + end_.own_reason, now);
  record_exit(code, signal, {}, now);
}

void RankState::record_held_end(Clock::time_point now) {
  if (const auto end = std::exchange(held_end_, std::nullopt))
    record_exit(end->code, end->signal, {}, now);
}

void RankState::record_exit(int code, int signal, std::string_view error, Clock::time_point now) {
  if (phase_ == Phase::kOver) return;
  phase_ = Phase::kOver;
  exit_ = Exit{code, now};
  // Workers that the program left behind would keep the task alive, so they are killed now.
  if (!end_.kill_at) end_.kill_at = now;
  if (!lead_.was_connected && !error.empty()) outlet_.say(error);
  RankEnd end{.code = code,
              .signal = signal,
              .error = std::string(error),
              .ended_by_itself = !end_.is_requested || end_.was_exiting,
              .lead_was_unheard = !end_.own_reason.empty()};
  if (blame_ && !end_.is_requested && code != 0 && signal == 0) {
    end.blamed_rank = blame_->rank;
    end.error = blame_->reason;
  }
  outlet_.send(to_lead::Exit{std::move(end)});
}

void RankState::begin_end(bool term_is_under_way, bool is_exiting, Clock::time_point now) {
  record_held_end(now);
  lead_.answer_until.reset();
  if (!std::exchange(end_.is_requested, true)) end_.was_exiting = is_running() && is_exiting;
  if (phase_ == Phase::kJoining || phase_ == Phase::kUnfit)
    return record_exit(128 + SIGTERM, SIGTERM, {}, now);
  if (is_ending()) return;
  term_is_under_way = term_is_under_way || signals_.has_come(SIGTERM);
  end_.term_at = now + (term_is_under_way ? kTermArrivesWithin : milliseconds(0));
  end_.kill_at = now + kKilledAfterTerm;
  send_signals(now);
}

std::string_view RankState::consequence() const {
  if (phase_ == Phase::kOver) return "the program has ended";
  return is_running() ? "the program is ended" : "the rank ends without a program";
}

void RankState::end_without_lead(std::string reason, Clock::time_point now) {
  record_held_end(now);
  outlet_.say(fmt::format("{}; {}", reason, consequence()));
  if (phase_ != Phase::kOver && !is_ending()) end_.own_reason = std::move(reason);
  begin_end(false, false, now);
}

void RankState::on_killed(bool found_any, bool has_children, Clock::time_point now) {
  // Without children no process is left. With children, two kills in a row must find no living
  // process, because one kill can miss a process. has_children may stay true for ever, as for a
  // traced zombie, for which waitpid() cannot succeed.
  end_.kills_without_process = found_any ? 0 : end_.kills_without_process + 1;
  const bool is_gone = !has_children || end_.kills_without_process > 1;
  if (is_gone && exit_ && !end_.tree_gone_at) end_.tree_gone_at = now;
}

/// Checks every second whether the program has new reports, and whether it is suspended. awake: the
/// time since the previous tick() in which this process was not suspended. Slurm suspends a job as
/// a whole, including this process.
void RankState::check_program(Clock::time_point now, Clock::duration awake) {
  look_.suspended_time += awake;
  if (now < look_.next) return;
  look_.next = now + kLookEvery;
  outlet_.look_at_program();
}

void RankState::on_look(bool is_suspended) {
  if (!is_suspended) {
    look_.suspended_time = {};
  } else if (look_.suspended_time >= kSuspensionReportedAfter) {
    outlet_.send(to_lead::Suspended{std::chrono::duration_cast<seconds>(look_.suspended_time)});
  }
}

void RankState::watch_lead(Clock::time_point now) {
  if (now >= lead_.next_beat) {
    lead_.next_beat = now + kBeatEvery;
    outlet_.send_beat(now);
  }
  if (lead_.silence > kLease && !is_ending()) {
    end_without_lead(fmt::format("no message from lead for {} s",
                                 std::chrono::duration_cast<seconds>(kLease).count()),
                     now);
  }
}

void RankState::send_signals(Clock::time_point now) {
  for (const int signal : signals_.take_due(now)) {
    if (is_running()) outlet_.signal_program(signal);
  }
  if (end_.term_at && now >= *end_.term_at) {
    end_.term_at.reset();
    if (phase_ != Phase::kOver && !signals_.reached_whole_tree(SIGTERM)) outlet_.end_processes();
  }
}

void RankState::tick(Clock::time_point now) {
  // Counts at most 2 s since the previous tick: in a longer pause this process was suspended and
  // could not hear lead.
  const auto awake = std::min<Clock::duration>(now - last_tick_, seconds(2));
  last_tick_ = now;
  lead_.silence += awake;
  if (held_end_ && (now >= held_end_->until || signals_.has_come(held_end_->signal)))
    record_held_end(now);
  if (lead_.is_open && is_running()) check_program(now, awake);
  if (lead_.is_open) watch_lead(now);
  if (lead_.answer_until && now >= *lead_.answer_until)
    end_without_lead("no message from lead after a signal", now);
  send_signals(now);
  if (end_.kill_at && now >= *end_.kill_at && !end_.tree_gone_at) outlet_.kill_processes();
}

std::optional<RankState::Clock::time_point> RankState::next_deadline(Clock::time_point now) const {
  if (exit_ || (end_.kill_at && now >= *end_.kill_at)) return now + kKillEvery;
  std::optional<Clock::time_point> next;
  const auto held_until = held_end_ ? std::optional(held_end_->until) : std::nullopt;
  for (const auto& when :
       {signals_.next_deadline(), end_.term_at, end_.kill_at, lead_.answer_until, held_until}) {
    if (when && (!next || *when < *next)) next = when;
  }
  return next;
}

bool RankState::is_done(const Output& output, Clock::time_point now) const {
  if (!exit_) return false;
  const auto has_passed = [&](milliseconds limit) { return now >= exit_->at + limit; };
  if (output.may_still_copy_outputs) return false;
  const auto& gone_at = end_.tree_gone_at;
  if (!gone_at && !has_passed(kTreeLimit)) return false;
  if (output.is_held && !has_passed(kOutputWait)) return false;
  if (!output.is_at_end && now < gone_at.value_or(exit_->at) + kPipesWait) return false;
  if (!output.log_is_drained && !has_passed(kLogWait)) return false;
  return is_exit_confirmed_ || !lead_.is_open || has_passed(confirmed_within_);
}

}  // namespace dlrun::agent
