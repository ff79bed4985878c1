// What ends a rank: signals, lead's word, the program's own end; and when everything that grew from
// it is gone.

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "common/text.h"
#include "runtime/agent/descendants.h"
#include "runtime/agent/rank_process.h"

namespace dlrun::agent {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kWordWait{2000};  ///< for lead's word after a signal
constexpr milliseconds kMercy{1000};     ///< from TERM to KILL
constexpr milliseconds kNotedWait{
    12'000};  ///< for lead to note the exit record: longer than its lease
constexpr milliseconds kTreeLimit{5000};  ///< for the last process to die: the kernel may hold it
constexpr milliseconds kPipesWait{2000};  ///< for the last output after the last process
constexpr milliseconds kOutputWait{60'000};  ///< for somebody to read what the program printed
constexpr milliseconds kLogWait{10'000};
constexpr milliseconds kTermUnderWay{200};  ///< the nodes of a step are not signalled at once
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
  if (signal == SIGUSR2 || !lead_.is_made()) {
    // No business of lead's, or a wrapper without a lead: it is the program's.
    if (program_ > 0) signals_.pass_on(signal, now);
    if (program_ <= 0 && !has_started_ && signal != SIGUSR1 && signal != SIGUSR2) {
      exit_code_ = 128 + signal;
      ended_at_ = now;
    }
    return;
  }
  if (!lead_.is_open()) return;  // the program is being ended
  lead_.send({{"type", "signal"}, {"signal", signal}});
  if (signal != SIGUSR1 && !word_until_) word_until_ = now + kWordWait;
}

void Rank::on_guard_gone() {
  // The task is over for whoever started it: it was killed, and so are we.
  if (exit_code_) return;
  has_started_ = true;
  record_exit(128 + SIGKILL, SIGKILL, {});
}

void Rank::reap() {
  int status = 0;
  for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
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
  look_at_progress(true);  // its last word
  if (store_) store_->drain();
  program_ = -1;
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  // A program that was cut short has not succeeded, whatever it made of the signal.
  if (!own_reason_.empty())
    return record_exit(128 + SIGTERM, SIGTERM, "ended by its agent: " + own_reason_);
  record_exit(signal != 0 ? 128 + signal : WEXITSTATUS(status), signal, {});
}

void Rank::record_exit(int code, int signal, std::string_view error) {
  if (exit_code_) return;
  exit_code_ = code;
  ended_at_ = Clock::now();
  if (!lead_.is_made() && !error.empty()) say(error);
  Json record{
      {"type", "exit"}, {"code", code}, {"signal", signal}, {"error", error}, {"own", !is_told_}};
  if (!own_reason_.empty()) record["unheard"] = true;
  if (told_failure_ && !is_told_ && code != 0 && signal == 0) {
    record["of"] = told_failure_->of;
    record["error"] = told_failure_->words;
  }
  lead_.send(record);
  if (!lead_.is_open()) is_noted_ = true;
  // Workers that the program has left behind would keep the task alive.
  if (!kill_at_) kill_at_ = Clock::now();
}

void Rank::begin_end(std::string_view why, bool term_is_under_way) {
  word_until_.reset();
  reap();  // a program that has ended already did so before it was told to
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
  kill_at_ = Clock::now() + kMercy;
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
  if (program_ > 0) ::kill(program_, SIGKILL);  // where there is no /proc
  // One look can miss a process; a child that nobody can wait for (a zombie that is traced) holds
  // nothing up.
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
  return is_noted_ || !lead_.is_made() || has_passed(ended_at_, kNotedWait);
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
