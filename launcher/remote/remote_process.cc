#include "launcher/remote/remote_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "common/log.h"
#include "common/subprocess.h"
#include "common/text.h"

namespace dlrun {
namespace {

constexpr std::size_t kMostWaiting = 256U << 10U;  ///< bytes of input that wait to be sent
/// The longest time until a signal is noticed.
constexpr std::chrono::milliseconds kPollTimeout{500};
constexpr std::chrono::seconds kSignalGrace{10};  ///< for a command that got a signal
constexpr std::size_t kMostPrinted = 64U << 10U;  ///< bytes of output that an error keeps

/// The standard streams of a child; -1: the child keeps the stream of this process.
struct Streams {
  int in = -1, out = -1, err = -1;
};

/// Starts a program. owns_group: the program has a process group of its own, which Ctrl-C does not
/// reach.
Result<pid_t> spawn(const std::vector<std::string>& argv, const Env& env, const Streams& streams,
                    bool owns_group) {
  const auto program = find_program(argv[0], env);
  if (!program) return fail(Errc::kNotFound, "{}: no such program in PATH", argv[0]);
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const auto entries = env.entries();
  std::vector<char*> environment;
  for (const std::string& entry : entries) environment.push_back(const_cast<char*>(entry.c_str()));
  environment.push_back(nullptr);
  log_debug("a command starts", {{"argv", argv}});
  const pid_t pid = ::fork();
  if (pid < 0) return fail(Errc::kIo, "cannot start {}: {}", argv[0], errno_text(errno));
  if (pid > 0) return pid;
  if (owns_group) ::setpgid(0, 0);
  ::signal(SIGPIPE, SIG_DFL);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN)
      ::signal(signal, SIG_DFL);
  }
  const std::array<int, 3> wanted{streams.in, streams.out, streams.err};
  for (int fd = 0; fd < 3; ++fd) {
    if (wanted[static_cast<std::size_t>(fd)] >= 0) ::dup2(wanted[static_cast<std::size_t>(fd)], fd);
  }
  ::execve(program->c_str(), words.data(), environment.data());
  ::_exit(127);
}

struct SocketPair {
  UniqueFd ours, theirs;
};

/// Makes a pair of connected sockets. They are used instead of a pipe, because send() to a socket
/// can avoid SIGPIPE.
Result<SocketPair> make_socket_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return fail(Errc::kIo, "cannot make a pair of sockets: {}", errno_text(errno));
  return SocketPair{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

int exit_code_of_status(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

Result<ProgramOutcome> run_program_that_may_ask(const std::vector<std::string>& argv,
                                                const Env& env, bool shows_errors) {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0)
    return fail(Errc::kIo, "cannot make a pipe: {}", errno_text(errno));
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  ::fcntl(write_end.get(), F_SETFL, 0);  // ssh expects a blocking standard error
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  DLRUN_TRY_ASSIGN(
      const pid_t pid,
      spawn(argv, env, {null.get(), null.get(), shows_errors ? -1 : write_end.get()}, false));
  write_end.reset();
  ProgramOutcome end;
  int status = 0;
  for (bool is_over = false; !is_over;) {
    pollfd wait{read_end.get(), POLLIN, 0};
    ::poll(&wait, 1, 20);
    is_over = ::waitpid(pid, &status, WNOHANG) == pid;
    std::array<char, 4096> buffer{};
    ssize_t got = 0;
    while ((got = ::read(read_end.get(), buffer.data(), buffer.size())) > 0) {
      if (end.err.size() < kMostPrinted)
        end.err.append(buffer.data(), static_cast<std::size_t>(got));
    }
    if (!is_over && (wait.revents & POLLHUP) != 0 && got == 0)
      is_over = ::waitpid(pid, &status, 0) == pid;
  }
  end.exit_code = exit_code_of_status(status);
  log_info("a command has ended", {{"argv", argv}, {"code", end.exit_code}});
  return end;
}

Result<RemoteProcess> RemoteProcess::start(const std::vector<std::string>& argv, const Env& env,
                                           std::string_view nonce, bool keeps_group) {
  DLRUN_TRY_ASSIGN(auto in, make_socket_pair());
  DLRUN_TRY_ASSIGN(auto out, make_socket_pair());
  DLRUN_TRY_ASSIGN(auto err, make_socket_pair());
  DLRUN_TRY_ASSIGN(
      const pid_t pid,
      spawn(argv, env, {in.theirs.get(), out.theirs.get(), err.theirs.get()}, !keeps_group));
  ::fcntl(in.ours.get(), F_SETFL, O_NONBLOCK);
  return RemoteProcess(pid, std::move(in.ours), std::move(out.ours), std::move(err.ours), nonce);
}

RemoteProcess::RemoteProcess(RemoteProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      session_(std::move(other.session_)),
      in_(std::move(other.in_)),
      out_(std::move(other.out_)),
      err_(std::move(other.err_)),
      out_filter_(std::move(other.out_filter_)),
      err_filter_(std::move(other.err_filter_)),
      to_send_(std::move(other.to_send_)),
      unread_output_(std::move(other.unread_output_)),
      input_(other.input_),
      input_ended_(other.input_ended_),
      is_reaped_(other.is_reaped_),
      status_(other.status_) {}

RemoteProcess::~RemoteProcess() {
  if (pid_ <= 0) return;
  in_.reset();
  if (!is_reaped_) ::kill(pid_, SIGTERM);
  reap(true);
}

Error RemoteProcess::error_of(std::string_view err) const {
  if (!out_filter_.has_begun()) {
    const std::string printed = err_filter_.noise();
    if (exit_code_of_status(status_) == kSshFailed)
      return {Errc::kUnavailable, fmt::format("ssh could not connect: {}", trim(printed))};
    return {Errc::kNotFound, fmt::format("dlrun did not start there: {}", trim(printed))};
  }
  constexpr std::string_view kStart = "dlrun: error: ";
  std::string_view message = trim(err);
  if (message.starts_with(kStart)) message.remove_prefix(kStart.size());
  switch (exit_code_of_status(status_)) {  // dlrun's exit codes, see docs/exit-codes.md
    case 2:
      return {Errc::kInvalid, std::string(message)};
    case 3:
      return {Errc::kRefused, std::string(message)};
    case 6:
      return {Errc::kNotFound, std::string(message)};
    case 1:
      return {Errc::kIo, std::string(message)};
    default:
      return {Errc::kUnavailable,
              message.empty() ? "the connection to the host was lost" : std::string(message)};
  }
}

bool RemoteProcess::reap(bool waits) {
  while (!is_reaped_) {
    const pid_t reaped = ::waitpid(pid_, &status_, waits ? 0 : WNOHANG);
    if (reaped == 0) return false;
    if (reaped < 0 && errno == EINTR) continue;
    is_reaped_ = true;
  }
  return true;
}

void RemoteProcess::write_some() {
  const ssize_t sent =
      ::send(in_.get(), to_send_.data(), to_send_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0) to_send_.erase(0, static_cast<std::size_t>(sent));
  if (sent < 0 && errno != EAGAIN && errno != EINTR) {
    to_send_.clear();  // ssh has ended; transfer_some() notices the end of its output
    in_.reset();
  }
}

void RemoteProcess::read_input() {
  std::array<char, 1U << 15U> buffer{};
  const ssize_t got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
  if (got < 0) return;
  const std::string_view bytes(buffer.data(), static_cast<std::size_t>(got));
  input_ended_ = got == 0;
  if (input_ == Input::kRaw) {
    send(bytes);
  } else {
    send(input_ended_ ? RemoteFrame{RemoteFrame::Kind::kInputEnd, ""}
                      : RemoteFrame{RemoteFrame::Kind::kInput, std::string(bytes)});
  }
}

Result<> RemoteProcess::read_output(UniqueFd& fd, MarkerFilter& filter, const Sink& sink) {
  std::array<char, 1U << 16U> buffer{};
  const ssize_t got = ::recv(fd.get(), buffer.data(), buffer.size(), 0);
  if (got < 0) {
    if (errno == EINTR || errno == EAGAIN) return {};
    return fail(Errc::kIo, "reading from ssh: {}", errno_text(errno));
  }
  if (got == 0) {
    fd.reset();
    return {};
  }
  DLRUN_TRY_ASSIGN(const auto bytes, filter.pass({buffer.data(), static_cast<std::size_t>(got)}));
  if (!bytes.empty() && !sink(bytes)) {
    in_.reset();
    ::kill(pid_, SIGTERM);
  }
  return {};
}

Result<bool> RemoteProcess::transfer_some(const Sink& out, const Sink& err) {
  if (!out_.is_open() && !err_.is_open()) return false;
  if (input_ == Input::kRaw && input_ended_ && to_send_.empty()) in_.reset();
  const bool wants_input =
      input_ != Input::kNone && !input_ended_ && to_send_.size() < kMostWaiting;
  std::array<pollfd, 4> waits{pollfd{out_.get(), POLLIN, 0}, pollfd{err_.get(), POLLIN, 0},
                              pollfd{to_send_.empty() ? -1 : in_.get(), POLLOUT, 0},
                              pollfd{wants_input && in_.is_open() ? STDIN_FILENO : -1, POLLIN, 0}};
  if (::poll(waits.data(), waits.size(), static_cast<int>(kPollTimeout.count())) <= 0) return true;
  if (waits[0].revents != 0) DLRUN_TRY(read_output(out_, out_filter_, out));
  if (waits[1].revents != 0) DLRUN_TRY(read_output(err_, err_filter_, err));
  if (waits[2].revents != 0) write_some();
  if (waits[3].revents != 0) read_input();
  return true;
}

Result<std::string> RemoteProcess::read_line(std::size_t limit_bytes, std::chrono::seconds timeout,
                                             const Interrupt& interrupt) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::string err;
  const auto keep = [&](std::string_view bytes) {
    unread_output_ += bytes;
    return unread_output_.size() <= limit_bytes;
  };
  const auto keep_err = [&](std::string_view bytes) {
    if (err.size() < kMostPrinted) err += bytes;
    return true;
  };
  for (;;) {
    const auto end = unread_output_.find('\n');
    if (end != std::string::npos && end <= limit_bytes) {
      std::string line = unread_output_.substr(0, end);
      unread_output_.erase(0, end + 1);
      return line;
    }
    if (unread_output_.size() > limit_bytes)
      return fail(Errc::kInvalid, "the host's answer is longer than {} bytes", limit_bytes);
    if (interrupt.requested()) return fail(Errc::kInterrupted, "");
    if (std::chrono::steady_clock::now() > deadline)
      return fail(Errc::kTimeout, "the host gave no answer within {} s", timeout.count());
    DLRUN_TRY_ASSIGN(const bool goes_on, transfer_some(keep, keep_err));
    if (!goes_on) {
      reap(true);
      return tl::unexpected(error_of(err));
    }
  }
}

Result<RemoteOutcome> RemoteProcess::follow_to_end(const Sink& out, const Sink& err,
                                                   const Interrupt& interrupt) {
  RemoteOutcome end;
  std::optional<std::chrono::steady_clock::time_point> signalled_at;
  if (!unread_output_.empty()) static_cast<void>(out(std::exchange(unread_output_, {})));
  for (;;) {
    if (!signalled_at && interrupt.requested()) {
      end.first_signal = interrupt.signal();
      send(RemoteFrame{RemoteFrame::Kind::kSignal, std::to_string(end.first_signal)});
      signalled_at = std::chrono::steady_clock::now();
    }
    if (signalled_at && std::chrono::steady_clock::now() - *signalled_at > kSignalGrace) {
      in_.reset();
      ::kill(pid_, SIGTERM);
    }
    DLRUN_TRY_ASSIGN(const bool goes_on, transfer_some(out, err));
    if (!goes_on) break;
  }
  reap(true);
  end.exit_code = exit_code_of_status(status_);
  end.has_begun = out_filter_.has_begun();
  end.version = out_filter_.version();
  end.printed = err_filter_.noise();
  if (!end.has_begun && trim(end.printed).empty()) end.printed = out_filter_.noise();
  if (end.printed.size() > kMostPrinted) end.printed.resize(kMostPrinted);
  log_info(
      "a command on a host has ended",
      {{"code", end.exit_code}, {"begun", end.has_begun ? "yes" : "no"}, {"version", end.version}});
  return end;
}

}  // namespace dlrun
