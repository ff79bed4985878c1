// The end of a rank: signals, lead's order to end, and the program's own exit. The rank is done
// when all descendant processes are gone, the output is written, and lead has the exit record.

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "common/log.h"
#include "common/text.h"
#include "runtime/agent/descendants.h"
#include "runtime/agent/intervals.h"
#include "runtime/agent/program_start.h"
#include "runtime/agent/rank_process.h"

namespace dlrun::agent {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kWordWait{2000};      ///< time for lead's reply about a signal
constexpr milliseconds kTreeLimit{5000};     ///< time for the last process to end after its KILL
constexpr milliseconds kPipesWait{2000};     ///< time for the last output after the last process
constexpr milliseconds kOutputWait{60'000};  ///< time for a slow reader to take the output
constexpr milliseconds kLogWait{10'000};
/// Time for a signal to reach all nodes of a step. They do not get it at the same moment.
constexpr milliseconds kTermUnderWay{200};
constexpr milliseconds kTickEvery{500};
constexpr milliseconds kBusyTick{20};

}  // namespace

void Rank::take_signals() {
  signalfd_siginfo info{};
  while (::read(guarded_.signals.get(), &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) {
      reap();
    } else if (signal == guard_gone_signal()) {
      on_guard_gone();
    } else if (signal == passed_on_signal()) {
      on_signal(info.ssi_int, true);
    } else {
      on_signal(signal, false);
    }
  }
}

void Rank::on_signal(int signal, bool came_by_guard) {
  const auto now = Clock::now();
  if (!signals_.take(signal, came_by_guard, now)) return;
  log_info("got a signal", {{"signal", signal}, {"from_launcher", came_by_guard}});
  if (signal == SIGUSR2 || !lead_.is_made()) {
    // Lead does not decide about USR2, and there may be no lead: pass the signal to the program.
    if (program_ > 0) signals_.pass_on(signal, now);
    if (program_ <= 0 && !has_started_ && signal != SIGUSR1 && signal != SIGUSR2) {
      exit_code_ = 128 + signal;
      ended_at_ = now;
    }
    return;
  }
  if (!lead_.is_open()) return;  // lead is gone, so the program is being ended already
  lead_.send(to_lead::Signal{signal});
  if (signal != SIGUSR1 && !word_until_) word_until_ = now + kWordWait;
}

void Rank::on_guard_gone() {
  // The guard was killed, so the task has ended for the launcher. End everything.
  if (exit_code_) return;
  has_started_ = true;
  record_exit(128 + SIGKILL, SIGKILL, {});
}

void Rank::reap() {
  int status = 0;
  for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    log_program_end(pid, status);
    if (pid == program_) {
      on_program_end(status);
    } else if (check_ && pid == check_->pid()) {
      on_check_end(check_->finish(status));
    } else if (const auto message = autopsy_.on_reaped(pid)) {
      lead_.send(*message);
    } else {
      report_.on_reaped(pid, status);
    }
  }
}

void Rank::on_program_end(int status) {
  look_at_progress(true);  // read the program's last report
  if (store_) store_->drain();
  program_ = -1;
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  // A program that its agent interrupted has not succeeded, even if it exits with 0.
  if (!own_reason_.empty())
    return record_exit(128 + SIGTERM, SIGTERM, "ended by its agent: " + own_reason_);
  record_exit(signal != 0 ? 128 + signal : WEXITSTATUS(status), signal, {});
}

void Rank::record_exit(int code, int signal, std::string_view error) {
  if (exit_code_) return;
  exit_code_ = code;
  ended_at_ = Clock::now();
  log_info("the rank ends", {{"code", code}, {"signal", signal}, {"error", error}});
  if (!lead_.is_made() && !error.empty()) say(error);
  RankEnd end{.code = code,
              .signal = signal,
              .error = std::string(error),
              .is_own = !is_told_ || was_exiting_,
              .is_unheard = !own_reason_.empty()};
  if (told_failure_ && !is_told_ && code != 0 && signal == 0) {
    end.blamed_rank = told_failure_->rank;
    end.error = told_failure_->words;
  }
  lead_.send(to_lead::Exit{std::move(end)});
  if (!lead_.is_open()) is_noted_ = true;
  // Workers that the program left behind would keep the task alive, so they are killed now.
  if (!kill_at_) kill_at_ = Clock::now();
}

void Rank::begin_end(std::string_view why, bool term_is_under_way) {
  word_until_.reset();
  reap();  // a program that has already ended did so before it was told to
  // The kernel closes the connections of a process some time before it can be waited for, so other
  // ranks may have failed, and lead may have ordered the end, since this program died.
  if (!is_told_) was_exiting_ = program_ > 0 && is_exiting(program_);
  is_told_ = true;
  if (!why.empty()) say(why);
  if (!has_started_) {
    has_started_ = true;
    return record_exit(128 + SIGTERM, SIGTERM, {});
  }
  if (is_unfit_) return record_exit(128 + SIGTERM, SIGTERM, {});
  if (kill_at_) return;
  term_is_under_way = term_is_under_way || signals_.has_come(SIGTERM);
  term_at_ = Clock::now() + (term_is_under_way ? kTermUnderWay : milliseconds(0));
  kill_at_ = Clock::now() + kKilledAfterTerm;
  tick();
}

void Rank::end_without_lead(std::string reason) {
  const auto why = reason + "; the program is ended";
  if (!exit_code_ && !kill_at_) own_reason_ = std::move(reason);
  begin_end(why);
}

void Rank::kill_what_is_left() {
  reap();
  const auto left = descendants();
  for (const pid_t pid : left) ::kill(pid, SIGKILL);
  if (program_ > 0) ::kill(program_, SIGKILL);  // needed if there is no /proc
  // One look can miss a process, so two looks in a row must be empty. They suffice even if
  // has_children() stays true, as for a traced zombie, which cannot be waited for.
  empty_looks_ = left.empty() ? empty_looks_ + 1 : 0;
  const bool is_gone = !has_children() || empty_looks_ > 1;
  if (is_gone && exit_code_ && !tree_gone_at_) tree_gone_at_ = Clock::now();
}

bool Rank::is_done() {
  if (!exit_code_) return false;
  const auto now = Clock::now();
  const auto has_passed = [&](const std::optional<Clock::time_point>& since, milliseconds limit) {
    return since && now >= *since + limit;
  };
  if (!tree_gone_at_ && !has_passed(ended_at_, kTreeLimit)) return false;
  const bool waits_for_reader = output_.held_bytes() > 0;
  if (waits_for_reader && !has_passed(ended_at_, kOutputWait)) return false;
  if (!output_.is_at_end() && !has_passed(tree_gone_at_ ? tree_gone_at_ : ended_at_, kPipesWait))
    return false;
  if (!output_.log_is_written() && !has_passed(ended_at_, kLogWait)) return false;
  return is_noted_ || !lead_.is_made() || has_passed(ended_at_, kExitNotedWithin);
}

milliseconds Rank::next_wait() const {
  if (exit_code_ || (kill_at_ && Clock::now() >= *kill_at_)) return kBusyTick;
  const auto now = Clock::now();
  auto wait = kTickEvery;
  for (const auto& when : {signals_.next_deadline(), term_at_, kill_at_, word_until_}) {
    if (when)
      wait = std::clamp(std::chrono::ceil<milliseconds>(*when - now), milliseconds(0), wait);
  }
  return wait;
}

}  // namespace dlrun::agent
