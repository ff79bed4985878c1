#include "runtime/agent/program_start.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "common/files.h"
#include "common/log.h"
#include "common/subprocess.h"
#include "common/text.h"

namespace dlrun::agent {
namespace {

// Set once by raise_file_limit(), read by children after fork().
std::optional<rlimit> file_limit_before;

/// A running program, for its line in the log.
struct LoggedProgram {
  std::vector<std::string> argv;
  std::chrono::steady_clock::time_point since;
  LogLevel level = LogLevel::kInfo;
};

/// Returns the programs that were started while the log was on, by process id.
std::map<pid_t, LoggedProgram>& logged_programs() {
  static std::map<pid_t, LoggedProgram> programs;
  return programs;
}

void log_program_start(const Program& program, pid_t pid) {
  const LogLevel level = program.is_routine ? LogLevel::kDebug : LogLevel::kInfo;
  if (!is_logged(level)) return;
  log_debug("a command starts", {{"argv", program.argv}, {"pid", pid}});
  logged_programs().insert_or_assign(
      pid, LoggedProgram{program.argv, std::chrono::steady_clock::now(), level});
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (const auto& text : strings) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

/// Finds the program. Fails if the name has no '/' and PATH has no executable file of that name.
Result<std::string> locate(const std::string& name, const Env& env) {
  if (name.find('/') != std::string::npos) return name;
  if (auto found = find_program(name, env)) return *found;
  const std::string search = env.get_or("PATH", "");
  for (const auto folder : split(search, ':')) {
    const auto candidate = fmt::format("{}/{}", folder.empty() ? "." : folder, name);
    if (::access(candidate.c_str(), F_OK) == 0) {
      return fail(Errc::kRefused, "{}: is not executable", printable(candidate));
    }
  }
  return fail(Errc::kNotFound, "{}: command not found (PATH={})", printable(name),
              printable(env.get_or("PATH", "")));
}

Error exec_error(const std::string& path, int error) {
  if (error == ENOENT && ::access(path.c_str(), F_OK) == 0) {
    return {Errc::kRefused, fmt::format("{}: its interpreter (first line) or loader does not exist",
                                        printable(path))};
  }
  if (error == ENOENT || error == ENOTDIR) {
    return {Errc::kNotFound, fmt::format("{}: command not found", printable(path))};
  }
  return {Errc::kRefused, fmt::format("{}: {}", printable(path), errno_text(error))};
}

/// Restores the signal actions that ignore_write_signals() changed, and unblocks all signals.
void restore_signals() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGXFSZ, SIG_DFL);
}

/// Runs in the child between fork() and exec(). Only async-signal-safe calls are allowed here.
[[noreturn]] void exec_child(const Program& program, const char* path, char** argv, char** envp,
                             pid_t parent, int error_fd) {
  bool is_ready = true;
  if (program.dies_with_us) {
    // If getppid() returns another process, the parent died before the prctl() call.
    is_ready = ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ::getppid() == parent;
  }
  // On a kernel without Yama the call fails. Such a kernel needs no permission for tracing.
  if (program.may_be_traced) std::ignore = ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  if (program.restores_file_limit && file_limit_before)
    ::setrlimit(RLIMIT_NOFILE, &*file_limit_before);
  if (program.inherited_fd >= 0)
    is_ready = is_ready && ::fcntl(program.inherited_fd, F_SETFD, 0) == 0;
  // dup2() of a descriptor onto itself keeps close-on-exec, which the descriptors 0 to 2 never
  // have.
  is_ready = is_ready && ::dup2(program.in, 0) >= 0 && ::dup2(program.out, 1) >= 0 &&
             ::dup2(program.err, 2) >= 0;
  restore_signals();
  if (is_ready) ::execve(path, argv, envp);
  const int error = errno;
  [[maybe_unused]] const auto ignored = ::write(error_fd, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

Result<pid_t> start_program(const Program& program) {
  const auto path = locate(program.argv.front(), program.env);
  if (!path) return tl::unexpected<Error>(path.error());
  const auto entries = program.env.entries();
  const auto argv = pointers(program.argv);
  const auto envp = pointers(entries);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail(Errc::kIo, "pipe: {}", errno_text(errno));
  const UniqueFd error_read_end(ends[0]);
  UniqueFd error_write_end(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return fail(Errc::kIo, "{}: fork: {}", printable(*path), errno_text(errno));
  if (pid == 0) {
    exec_child(program, path->c_str(), const_cast<char**>(argv.data()),
               const_cast<char**>(envp.data()), parent, error_write_end.get());
  }
  error_write_end.reset();
  int error = 0;
  ssize_t got = 0;
  do {
    got = ::read(error_read_end.get(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  if (got == sizeof error) {
    auto failed = exec_error(*path, error);  // the SIGCHLD handling reaps the child
    log_info("a command has failed", {{"argv", program.argv}, {"error", failed.message}});
    return tl::unexpected<Error>(std::move(failed));
  }
  log_program_start(program, pid);
  return pid;
}

void log_program_end(pid_t pid, int status) {
  const auto found = logged_programs().find(pid);
  if (found == logged_programs().end()) return;
  const auto program = std::move(found->second);
  logged_programs().erase(found);
  log_line(program.level, "a command has ended",
           {{"argv", program.argv},
            {"pid", pid},
            {"code", WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status)},
            {"seconds", std::chrono::steady_clock::now() - program.since}});
}

bool reap_within(pid_t child, std::chrono::milliseconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (::waitpid(child, nullptr, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() >= until) return false;
    ::poll(nullptr, 0, 2);
  }
  return true;
}

Error become_program(const std::vector<std::string>& argv, const Env& env) {
  const auto path = locate(argv.front(), env);
  if (!path) return path.error();
  const auto entries = env.entries();
  restore_signals();
  ::execve(path->c_str(), pointers(argv).data(), pointers(entries).data());
  return exec_error(*path, errno);
}

int exit_code_of(const Error& error) {
  if (error.code == Errc::kNotFound) return 127;
  if (error.code == Errc::kRefused) return 126;
  return 70;
}

void ignore_write_signals() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}

void raise_file_limit() {
  rlimit limit{};
  if (file_limit_before || ::getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
      limit.rlim_cur == limit.rlim_max)
    return;
  file_limit_before = limit;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace dlrun::agent
