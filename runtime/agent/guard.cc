#include "runtime/agent/guard.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "runtime/agent/descendants.h"

namespace dlrun::agent {
namespace {

/// The guard passes these signals on to the agent.
constexpr std::array kPassedOn{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

/// Runs the guard until the agent has ended. signals: the signals that the guard waits for. Returns
/// the exit code of the guard.
int guard_agent(pid_t agent, const sigset_t& signals) {
  adopt_orphans();
  for (;;) {
    int status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (pid != agent) continue;
      end_descendants();
      if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
      const rlimit no_core{};
      ::setrlimit(RLIMIT_CORE, &no_core);
      ::signal(WTERMSIG(status), SIG_DFL);
      sigset_t none;
      sigemptyset(&none);
      sigprocmask(SIG_SETMASK, &none, nullptr);
      ::kill(::getpid(), WTERMSIG(status));
      return 128 + WTERMSIG(status);
    }
    siginfo_t info{};
    const int signal = ::sigwaitinfo(&signals, &info);
    if (signal > 0 && signal != SIGCHLD) {
      sigval value{};
      value.sival_int = signal;
      ::sigqueue(agent, passed_on_signal(), value);
    }
  }
}

}  // namespace

int passed_on_signal() {
  return SIGRTMIN;
}
int guard_gone_signal() {
  return SIGRTMIN + 1;
}

std::optional<UniqueFd> fork_into_guard_and_agent(int& exit_code) {
  sigset_t guard_signals;
  sigemptyset(&guard_signals);
  for (const int signal : kPassedOn) sigaddset(&guard_signals, signal);
  sigaddset(&guard_signals, SIGCHLD);
  sigset_t agent_signals = guard_signals;
  sigaddset(&agent_signals, passed_on_signal());
  sigaddset(&agent_signals, guard_gone_signal());
  sigprocmask(SIG_BLOCK, &agent_signals, nullptr);
  // If SIGCHLD were ignored, the kernel would reap our children, and waitpid() would miss them.
  ::signal(SIGCHLD, SIG_DFL);
  const pid_t guard = ::getpid();
  const pid_t agent = ::fork();
  if (agent > 0) {
    exit_code = guard_agent(agent, guard_signals);
    return std::nullopt;
  }
  if (agent == 0) {
    ::prctl(PR_SET_PDEATHSIG, guard_gone_signal());
    // The guard may have died before the prctl() call.
    if (::getppid() != guard) ::kill(::getpid(), guard_gone_signal());
  }
  // If fork() failed, the agent continues without a guard. Its program will probably not start
  // either.
  return UniqueFd(::signalfd(-1, &agent_signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

}  // namespace dlrun::agent
