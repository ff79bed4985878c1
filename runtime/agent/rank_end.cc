// Signals and processes of a rank: reads the signals, reaps the processes that have ended, and ends
// the others when RankState orders it.

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "common/log.h"
#include "runtime/agent/descendants.h"
#include "runtime/agent/guard.h"
#include "runtime/agent/program_start.h"
#include "runtime/agent/rank_runner.h"

namespace dlrun::agent {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRankTickEvery{500};
/// Time from the program's end for an attached profiler to write its result.
constexpr milliseconds kProfileWrittenWithin{4000};
static_assert(kProfileWrittenWithin < RankState::kTreeLimit);

}  // namespace

void RankRunner::take_signals() {
  signalfd_siginfo info{};
  while (::read(signal_fd_, &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) {
      reap();
      continue;
    }
    if (signal == guard_gone_signal()) {
      state_.on_guard_gone(Clock::now());
      continue;
    }
    const bool came_by_guard = signal == passed_on_signal();
    const int original = came_by_guard ? info.ssi_int : signal;
    if (state_.on_signal(original, came_by_guard, Clock::now()))
      log_info("got a signal", {{"signal", original}, {"by_guard", came_by_guard}});
  }
}

void RankRunner::handle(const to_rank::End& end) {
  reap();  // if the program has ended already, its end is recorded before the order is handled
  profile_until_.reset();
  state_.on_end(end.signal == SIGTERM, program_is_exiting(), Clock::now());
}

void RankRunner::on_lead_closed() {
  reap();  // see handle(End)
  profile_until_.reset();
  state_.on_lead_closed(lead_.why_closed(), program_is_exiting(), Clock::now());
}

bool RankRunner::program_is_exiting() const {
  return program_pid_ > 0 && is_exiting(program_pid_);
}

void RankRunner::reap() {
  int status = 0;
  for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    log_program_end(pid, status);
    if (pid == program_pid_) {
      on_program_end(status);
    } else if (check_ && pid == check_->pid()) {
      const auto failure = check_->result(status);
      check_.reset();
      state_.on_check_end(failure, Clock::now());
    } else if (const auto message = autopsy_.on_reaped(pid)) {
      lead_.send(*message);
    } else if (!on_copy_reaped(pid, status)) {
      meter_.on_reaped(pid, status);
    }
  }
}

void RankRunner::on_program_end(int status) {
  look_at_progress(true);  // read the program's last report
  if (store_) store_->drain();
  program_pid_ = -1;
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (status != 0 || state_.is_ending()) note_incomplete_outputs(milliseconds(0));
  if (!state_.is_ending() && options_.profile.attaches() && options_.profile.includes(world_.rank))
    profile_until_ = Clock::now() + kProfileWrittenWithin;
  state_.on_program_end(signal != 0 ? 128 + signal : WEXITSTATUS(status), signal, Clock::now());
}

void RankRunner::signal_program(int signal) {
  if (program_pid_ > 0) ::kill(program_pid_, signal);
}

void RankRunner::end_processes() {
  const auto tree = descendants();
  for (const pid_t pid : tree) ::kill(pid, SIGTERM);
  if (tree.empty()) signal_program(SIGTERM);  // needed if there is no /proc
}

void RankRunner::kill_processes() {
  reap();
  auto left = descendants();
  if (profile_until_ && Clock::now() < *profile_until_ && !left.empty())
    return state_.on_killed(true, has_children(), Clock::now());
  // The last copy of outputs may run while a process of the program cannot be killed.
  if (outputs_.is_last) std::erase(left, output_copy_.pid());
  for (const pid_t pid : left) ::kill(pid, SIGKILL);
  signal_program(SIGKILL);  // needed if there is no /proc
  state_.on_killed(!left.empty(), has_children(), Clock::now());
}

bool RankRunner::is_done() const {
  const RankState::Output output{.is_held = output_.held_bytes() > 0,
                                 .is_at_end = output_.is_at_end(),
                                 .log_is_drained = output_.log_is_drained(),
                                 .may_still_copy_outputs = may_still_copy_outputs()};
  return state_.is_done(output, Clock::now());
}

milliseconds RankRunner::next_wait() const {
  const auto now = Clock::now();
  auto next = state_.next_deadline(now);
  if (const auto line = output_.next_deadline(); line && (!next || *line < *next)) next = line;
  if (!next) return kRankTickEvery;
  return std::clamp(std::chrono::ceil<milliseconds>(*next - now), milliseconds(0), kRankTickEvery);
}

}  // namespace dlrun::agent
