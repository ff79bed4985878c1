// The child is started with fork and exec. If exec fails, the child writes the reason into an extra
// pipe; a successful exec closes this pipe. The parent writes the child's input and reads its
// outputs with poll() until the streams close or the time is up.

#include "common/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "common/blocked_sigpipe.h"
#include "common/files.h"
#include "common/log.h"
#include "common/text.h"

namespace dlrun {
namespace {

using Clock = std::chrono::steady_clock;

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return fail(Errc::kIo, "pipe: {}", errno_text(errno));
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

/// Returns pointers to the strings, and a null pointer at the end, as execve() expects them.
std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (const std::string& text : strings) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

/// Replaces the child by the program, after fork(). On failure, writes the reason to failure_fd and
/// ends the child. Only async-signal-safe calls are allowed here.
[[noreturn]] void exec_program(const std::string& program, char** argv, char** envp,
                               const char* directory, int in, int out, int err, int failure_fd) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGXFSZ, SIG_DFL);
  const bool is_in_directory = directory == nullptr || chdir(directory) == 0;
  if (is_in_directory && dup2(in, 0) >= 0 && dup2(out, 1) >= 0 && dup2(err, 2) >= 0)
    execve(program.c_str(), argv, envp);
  const int error = is_in_directory ? errno : -errno;  // negative if chdir() failed
  [[maybe_unused]] const ssize_t ignored = write(failure_fd, &error, sizeof error);
  _exit(127);
}

/// The output of the child on one pipe so far.
struct Capture {
  UniqueFd fd;
  std::string* text = nullptr;
};

/// Reads once. Closes the descriptor at the end of the output.
Result<> read_some(Capture& capture, std::size_t limit_bytes) {
  std::array<char, 1U << 16U> buffer{};
  const ssize_t got = read(capture.fd.get(), buffer.data(), buffer.size());
  if (got < 0) {
    if (errno == EINTR || errno == EAGAIN) return {};
    return fail(Errc::kIo, "reading its output: {}", errno_text(errno));
  }
  if (got == 0) {
    capture.fd.reset();
    return {};
  }
  capture.text->append(buffer.data(), static_cast<std::size_t>(got));
  if (capture.text->size() > limit_bytes) {
    return fail(Errc::kInvalid, "printed more than {} bytes", limit_bytes);
  }
  return {};
}

/// Writes the child's input and collects both outputs, until all three are closed or the time is
/// up.
Result<> exchange_data(const Command& command, pid_t child, UniqueFd input, Capture& out,
                       Capture& err) {
  const auto deadline = Clock::now() + command.timeout;
  std::string_view pending = command.stdin_text;
  if (pending.empty()) input.reset();
  bool has_sent_term = false;
  fcntl(input.get(), F_SETFL, O_NONBLOCK);
  while (out.fd.is_open() || err.fd.is_open() || input.is_open()) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0)
      return fail(Errc::kTimeout, "gave no answer within {} ms", command.timeout.count());
    if (!has_sent_term && command.is_interrupted && command.is_interrupted()) {
      kill(child, SIGTERM);
      has_sent_term = true;
    }
    std::array<pollfd, 3> waits{pollfd{out.fd.get(), POLLIN, 0}, pollfd{err.fd.get(), POLLIN, 0},
                                pollfd{input.get(), POLLOUT, 0}};
    if (poll(waits.data(), waits.size(), static_cast<int>(std::min<long long>(left, 1000))) < 0 &&
        errno != EINTR) {
      return fail(Errc::kIo, "poll: {}", errno_text(errno));
    }
    if ((waits[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
      DLRUN_TRY(read_some(out, command.output_limit_bytes));
    if ((waits[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
      DLRUN_TRY(read_some(err, command.output_limit_bytes));
    if ((waits[2].revents & (POLLOUT | POLLERR)) != 0) {
      const ssize_t written = write(input.get(), pending.data(), pending.size());
      if (written >= 0) pending.remove_prefix(static_cast<std::size_t>(written));
      // A child may close its input before it has read everything.
      const bool is_broken = written < 0 && errno != EINTR && errno != EAGAIN;
      if (pending.empty() || is_broken) input.reset();
    }
  }
  return {};
}

/// How long wait_or_kill() waits after it has killed the child. A child that waits for a device or
/// a network file system may need longer; dlrun then stops waiting for the child.
constexpr std::chrono::seconds kWaitAfterKill{2};

/// How long wait_or_kill() first waits for a child that run_unlogged() has killed already, because
/// the exchange of data has failed.
constexpr std::chrono::seconds kWaitAfterFailedExchange{5};

/// Waits for the child, and kills it at the deadline. After a successful exchange of data, the
/// child has closed its outputs, so the wait is short unless the child continues without them.
/// After a failed exchange, the child has already been killed.
Result<int> wait_or_kill(pid_t child, Clock::time_point deadline) {
  int status = 0;
  bool is_killed = false;
  for (;;) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child && is_killed)
      return fail(Errc::kTimeout, "did not end in time and was killed");
    if (ended == child) return status;
    if (ended < 0 && errno != EINTR) return fail(Errc::kIo, "waitpid: {}", errno_text(errno));
    if (is_killed && Clock::now() >= deadline) {
      return fail(
          Errc::kTimeout,
          "did not end in time, was killed, and has not ended, because the kernel blocks it");
    }
    if (Clock::now() >= deadline) {
      kill(child, SIGKILL);
      is_killed = true;
      deadline = Clock::now() + kWaitAfterKill;
    }
    const timespec pause{0, 1'000'000};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace

std::optional<std::string> find_program(std::string_view name, const Env& env) {
  // A relative path would be another file once the child has changed its folder.
  const auto absolute = [](const std::string& path) -> std::string {
    std::error_code error;
    auto full = std::filesystem::absolute(path, error);
    return error ? path : full.string();
  };
  const auto is_program = [](const std::string& path) {
    struct stat status {};
    return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
           access(path.c_str(), X_OK) == 0;
  };
  if (name.empty()) return std::nullopt;
  if (name.find('/') != std::string_view::npos) {
    std::string path(name);
    return is_program(path) ? std::optional(absolute(path)) : std::nullopt;
  }
  const std::string search = env.get_or("PATH", "/usr/local/bin:/usr/bin:/bin");
  for (std::string_view directory : split(search, ':')) {
    std::string path = fmt::format("{}/{}", directory.empty() ? "." : directory, name);
    if (is_program(path)) return absolute(path);
  }
  return std::nullopt;
}

namespace {

Result<FinishedCommand> run_unlogged(const Command& command) {
  if (command.argv.empty()) return fail(Errc::kInternal, "an empty command");
  const std::string& name = command.argv[0];
  const auto program = find_program(name, command.env);
  if (!program && name.find('/') != std::string::npos)
    return fail(Errc::kNotFound, "{}: is not an executable file", printable(name));
  if (!program) return fail(Errc::kNotFound, "{}: no such program in PATH", printable(name));

  auto in = make_pipe();
  auto out = make_pipe();
  auto err = make_pipe();
  auto exec_failure = make_pipe();
  for (const auto* pipe : {&in, &out, &err, &exec_failure}) {
    if (!*pipe) return within(name, pipe->error());
  }

  const std::vector<std::string> entries = command.env.entries();
  std::vector<char*> argv = pointers(command.argv);
  std::vector<char*> envp = pointers(entries);
  const auto deadline = Clock::now() + command.timeout;
  const BlockedSigpipe guard;  // the child may end before it reads its input
  const pid_t child = fork();
  if (child < 0) return fail(Errc::kIo, "{}: fork: {}", printable(name), errno_text(errno));
  if (child == 0) {
    exec_program(*program, argv.data(), envp.data(),
                 command.directory ? command.directory->c_str() : nullptr, in->read_end.get(),
                 out->write_end.get(), err->write_end.get(), exec_failure->write_end.get());
  }
  in->read_end.reset();
  out->write_end.reset();
  err->write_end.reset();
  exec_failure->write_end.reset();
  int exec_error = 0;
  ssize_t got = 0;
  while ((got = read(exec_failure->read_end.get(), &exec_error, sizeof exec_error)) < 0 &&
         errno == EINTR) {
  }

  FinishedCommand finished;
  Capture captured_out{std::move(out->read_end), &finished.out};
  Capture captured_err{std::move(err->read_end), &finished.err};
  const auto exchanged =
      exchange_data(command, child, std::move(in->write_end), captured_out, captured_err);
  if (!exchanged) kill(child, SIGKILL);
  const auto reaped =
      wait_or_kill(child, exchanged ? deadline : Clock::now() + kWaitAfterFailedExchange);
  if (got == sizeof exec_error && exec_error < 0)
    return fail(Errc::kIo, "{}, where {} is to run: {}", printable(*command.directory),
                printable(name), errno_text(-exec_error));
  if (got == sizeof exec_error) return fail(Errc::kIo, "{}: {}", *program, errno_text(exec_error));
  if (!exchanged) return within(name, exchanged.error());
  if (!reaped) return within(name, reaped.error());
  if (WIFSIGNALED(*reaped)) {
    finished.signal = WTERMSIG(*reaped);
    finished.exit_code = 128 + finished.signal;
  } else {
    finished.exit_code = WEXITSTATUS(*reaped);
  }
  return finished;
}

}  // namespace

Result<FinishedCommand> run_command(const Command& command) {
  log_debug("a command starts",
            {{"argv", command.argv}, {"input_bytes", command.stdin_text.size()}});
  const auto start = Clock::now();
  auto finished = run_unlogged(command);
  const auto seconds = Clock::now() - start;
  if (finished) {
    log_info("a command has ended",
             {{"argv", command.argv}, {"code", finished->exit_code}, {"seconds", seconds}});
  } else {
    log_info("a command has failed",
             {{"argv", command.argv}, {"error", finished.error().message}, {"seconds", seconds}});
  }
  return finished;
}

std::string signal_name(int signal) {
  const char* abbreviation = signal > 0 ? sigabbrev_np(signal) : nullptr;
  if (abbreviation != nullptr) return fmt::format("SIG{}", abbreviation);
  if (signal >= SIGRTMIN && signal <= SIGRTMAX) {
    return signal == SIGRTMIN ? "SIGRTMIN" : fmt::format("SIGRTMIN+{}", signal - SIGRTMIN);
  }
  return fmt::format("signal {}", signal);
}

}  // namespace dlrun
