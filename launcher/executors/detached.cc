#include "launcher/executors/detached.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "common/blocked_sigpipe.h"
#include "common/subprocess.h"
#include "common/text.h"

namespace dlrun {
namespace {

/// The buffers of a call of execve. They are made before the fork, because the child must not
/// allocate memory.
struct ExecArguments {
  std::vector<std::string> entries;
  std::vector<char*> argv, env;

  ExecArguments(const std::vector<std::string>& words, const Env& environment)
      : entries(environment.entries()) {
    for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    for (const auto& entry : entries) env.push_back(const_cast<char*>(entry.c_str()));
    env.push_back(nullptr);
  }
};

/// Runs in the child: makes it independent of the caller's terminal and signals, and redirects its
/// standard streams. null, log: descriptors. Returns false on failure.
bool detach(int null, int log) {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE})
    ::sigaction(signal, &action, nullptr);
  return ::setsid() >= 0 && ::dup2(null, STDIN_FILENO) >= 0 && ::dup2(log, STDOUT_FILENO) >= 0 &&
         ::dup2(log, STDERR_FILENO) >= 0;
}

}  // namespace

Result<DetachedProcess> DetachedProcess::start(const std::vector<std::string>& argv, const Env& env,
                                               const std::filesystem::path& directory,
                                               const std::filesystem::path& log) {
  const auto program = find_program(argv[0], env);
  if (!program) return fail(Errc::kNotFound, "{}: no such program in PATH", argv[0]);
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null.is_open()) return fail(Errc::kIo, "cannot open /dev/null: {}", errno_text(errno));
  const UniqueFd file(
      ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.is_open())
    return fail(Errc::kIo, "cannot open {}: {}", printable(log.string()), errno_text(errno));
  std::array<int, 2> pipe_ends{};
  if (::pipe2(pipe_ends.data(), O_CLOEXEC) != 0)
    return fail(Errc::kIo, "cannot make a pipe: {}", errno_text(errno));
  UniqueFd read_end(pipe_ends[0]);
  UniqueFd write_end(pipe_ends[1]);
  const ExecArguments arguments(argv, env);
  const std::string folder = directory.string();

  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  const pid_t pid = ::fork();
  if (pid != 0) ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return fail(Errc::kIo, "cannot start {}: {}", argv[0], errno_text(errno));
  if (pid == 0) {
    if (!detach(null.get(), file.get())) ::_exit(126);
    sigset_t none;
    sigemptyset(&none);
    ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
    write_end.reset();
    char byte = 0;
    ssize_t got = 0;
    while ((got = ::read(read_end.get(), &byte, 1)) < 0 && errno == EINTR) {
    }
    if (got != 1) ::_exit(143);  // let_run() was never called
    if (!folder.empty() && ::chdir(folder.c_str()) != 0) ::_exit(126);
    ::execve(program->c_str(), arguments.argv.data(), arguments.env.data());
    ::_exit(errno == ENOENT ? 127 : 126);
  }
  return DetachedProcess(pid, std::move(write_end));
}

Result<> DetachedProcess::let_run() {
  const BlockedSigpipe blocked;  // the waiting process may have ended
  const ssize_t written = ::write(start_pipe_.get(), "g", 1);
  start_pipe_.reset();
  if (written == 1) return {};
  return fail(Errc::kIo, "process {} ended before the run could start", pid_);
}

}  // namespace dlrun
