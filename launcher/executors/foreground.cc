// The child blocks on a pipe between fork and exec until let_run(). wait() installs signal handlers
// that send SIGTERM or SIGKILL to the child, and reaps the child.
#include "launcher/executors/foreground.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "common/blocked_sigpipe.h"
#include "common/log.h"
#include "common/subprocess.h"
#include "common/text.h"

namespace dlrun {
namespace {

// Shared by wait() and the handler. The only process-wide state in this file, because a signal
// handler has no other access to data.
volatile sig_atomic_t g_child = -1;
volatile sig_atomic_t g_may_kill = 0;
volatile sig_atomic_t g_signal_count = 0;
volatile sig_atomic_t g_first_signal = 0;

extern "C" void on_foreground_signal(int signal) {
  const int saved = errno;
  if (g_first_signal == 0) g_first_signal = signal;
  g_signal_count = g_signal_count + 1;
  if (g_child > 0)
    ::kill(static_cast<pid_t>(g_child), g_signal_count >= 3 && g_may_kill != 0 ? SIGKILL : SIGTERM);
  errno = saved;
}

constexpr std::array<int, 4> kSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

/// Resets a signal as exec would: a handler becomes the default action; an ignored signal (nohup)
/// stays ignored.
void reset_handler(int signal) {
  struct sigaction action {};
  if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) return;
  action.sa_handler = SIG_DFL;
  action.sa_flags = 0;
  ::sigaction(signal, &action, nullptr);
}

/// Installs the handler for all signals of kSignals. The destructor restores the previous handlers.
class Handlers {
 public:
  Handlers() {
    struct sigaction action {};
    action.sa_handler = on_foreground_signal;
    sigemptyset(&action.sa_mask);
    action.sa_flags = 0;  // no SA_RESTART: waitpid() returns with EINTR
    for (std::size_t i = 0; i < kSignals.size(); ++i)
      ::sigaction(kSignals[i], &action, &before_[i]);
  }
  Handlers(const Handlers&) = delete;
  Handlers& operator=(const Handlers&) = delete;
  ~Handlers() {
    for (std::size_t i = 0; i < kSignals.size(); ++i)
      ::sigaction(kSignals[i], &before_[i], nullptr);
  }

 private:
  std::array<struct sigaction, kSignals.size()> before_{};
};

}  // namespace

ForegroundProcess::ForegroundProcess(std::vector<std::string> argv, pid_t pid, UniqueFd start_pipe,
                                     OnSignal on_signal)
    : argv_(std::move(argv)),
      pid_(pid),
      start_pipe_(std::move(start_pipe)),
      on_signal_(on_signal) {}

ForegroundProcess::ForegroundProcess(ForegroundProcess&& other) noexcept
    : argv_(std::move(other.argv_)),
      pid_(std::exchange(other.pid_, -1)),
      start_pipe_(std::move(other.start_pipe_)),
      on_signal_(other.on_signal_) {}

ForegroundProcess::~ForegroundProcess() {
  if (pid_ <= 0) return;
  start_pipe_.reset();
  ::kill(pid_, SIGTERM);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Result<ForegroundProcess> ForegroundProcess::start(const std::vector<std::string>& argv,
                                                   const Env& env,
                                                   const std::filesystem::path& directory,
                                                   OnSignal on_signal) {
  const auto program = find_program(argv[0], env);
  if (!program) return fail(Errc::kNotFound, "{}: no such program in PATH", argv[0]);
  std::array<int, 2> pipe_ends{};
  if (::pipe2(pipe_ends.data(), O_CLOEXEC) != 0)
    return fail(Errc::kIo, "cannot make a pipe: {}", errno_text(errno));
  UniqueFd read_end(pipe_ends[0]);
  UniqueFd write_end(pipe_ends[1]);

  // Allocates everything before the fork, because the child must not allocate.
  std::vector<char*> arguments;
  for (const auto& word : argv) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const auto entries = env.entries();
  std::vector<char*> environment;
  for (const auto& entry : entries) environment.push_back(const_cast<char*>(entry.c_str()));
  environment.push_back(nullptr);
  const std::string folder = directory.string();
  const pid_t parent = ::getpid();

  // Blocks signals until the child has the default actions, so that the handlers of this process
  // never run in the child.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  const pid_t pid = ::fork();
  if (pid != 0) ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return fail(Errc::kIo, "cannot start {}: {}", argv[0], errno_text(errno));
  if (pid == 0) {
    for (const int signal : kSignals) reset_handler(signal);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(143);
    write_end.reset();
    char byte = 0;
    ssize_t got = 0;
    while ((got = ::read(read_end.get(), &byte, 1)) < 0 && errno == EINTR) {
    }
    if (got != 1) ::_exit(143);  // let_run() was never called
    if (!folder.empty() && ::chdir(folder.c_str()) != 0) ::_exit(126);
    ::execve(program->c_str(), arguments.data(), environment.data());
    ::_exit(errno == ENOENT ? 127 : 126);
  }
  return ForegroundProcess(argv, pid, std::move(write_end), on_signal);
}

void ForegroundProcess::let_run() {
  if (start_pipe_.is_open()) {
    // The child may have ended already. wait() then reports its end.
    const BlockedSigpipe blocked;
    [[maybe_unused]] const ssize_t written = ::write(start_pipe_.get(), "g", 1);
    start_pipe_.reset();
  }
}

Result<ForegroundEnd> ForegroundProcess::wait() {
  g_first_signal = 0;
  g_signal_count = 0;
  g_may_kill = on_signal_ == OnSignal::kTermThenKill ? 1 : 0;
  g_child = pid_;
  const Handlers handlers;
  log_debug("a command starts", {{"argv", argv_}, {"pid", pid_}});
  const auto start = std::chrono::steady_clock::now();
  let_run();
  int status = 0;
  pid_t reaped = 0;
  while ((reaped = ::waitpid(pid_, &status, 0)) < 0 && errno == EINTR) {
  }
  g_child = -1;
  pid_ = -1;
  if (reaped < 0) return fail(Errc::kInternal, "waitpid: {}", errno_text(errno));
  ForegroundEnd end;
  end.first_signal = static_cast<int>(g_first_signal);
  if (WIFSIGNALED(status)) {
    end.signal = WTERMSIG(status);
    end.exit_code = 128 + end.signal;
  } else {
    end.exit_code = WEXITSTATUS(status);
  }
  log_info("a command has ended", {{"argv", argv_},
                                   {"code", end.exit_code},
                                   {"seconds", std::chrono::steady_clock::now() - start}});
  return end;
}

std::optional<std::uint64_t> process_start_ticks(pid_t pid) {
  const UniqueFd fd(::open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_open()) return std::nullopt;
  std::array<char, 1024> buffer{};
  const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
  if (got <= 0) return std::nullopt;
  std::string_view text(buffer.data(), static_cast<std::size_t>(got));
  // The second field is the program's name in parentheses, which may hold any character.
  const auto close = text.rfind(')');
  if (close == std::string_view::npos || close + 2 >= text.size()) return std::nullopt;
  const auto fields = split(trim(text.substr(close + 2)), ' ');
  constexpr std::size_t kState = 0;       // field 3 of proc(5)
  constexpr std::size_t kStartTime = 19;  // field 22
  if (fields.size() <= kStartTime || fields[kState] == "Z" || fields[kState] == "X")
    return std::nullopt;
  const auto ticks = parse_int(fields[kStartTime]);
  if (!ticks) return std::nullopt;
  return static_cast<std::uint64_t>(*ticks);
}

std::optional<std::string> local_job_id(pid_t pid) {
  const auto start = process_start_ticks(pid);
  std::array<char, 256> host{};
  if (!start || ::gethostname(host.data(), host.size() - 1) != 0) return std::nullopt;
  return fmt::format("{}:{}:{}", host.data(), pid, *start);
}

std::string_view host_of_local_job(std::string_view id) {
  return id.substr(0, id.find(':'));
}

std::string own_pid_namespace() {
  std::array<char, 64> name{};
  const ssize_t size = ::readlink("/proc/self/ns/pid", name.data(), name.size());
  return size > 0 ? std::string(name.data(), static_cast<std::size_t>(size)) : std::string();
}

bool has_local_process_ended(std::string_view id, std::string_view pid_namespace) {
  // pid_namespace is empty for a run of an older dlrun, and for a script that was started by hand.
  // Both usually run in the machine's initial namespace, whose number is fixed in Linux.
  constexpr std::string_view kInitialNamespace = "pid:[4026531836]";
  const std::string own_namespace = own_pid_namespace();
  if (own_namespace.empty() ||
      own_namespace != (pid_namespace.empty() ? kInitialNamespace : pid_namespace))
    return false;
  const auto parts = split(id, ':');
  const auto pid = parts.size() == 3 ? parse_int(parts[1]) : std::nullopt;
  std::array<char, 256> host{};
  if (!pid || ::gethostname(host.data(), host.size() - 1) != 0 || parts[0] != host.data())
    return false;
  return local_job_id(static_cast<pid_t>(*pid)) != id;
}

}  // namespace dlrun
