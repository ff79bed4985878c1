#include "launcher/forward/piped_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "common/subprocess.h"

namespace dlrun {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{2};  ///< from the end of the input to SIGTERM
constexpr std::chrono::seconds kGrace{3};     ///< from SIGTERM to SIGKILL

struct PipeEnds {
  UniqueFd read, write;
};

Result<PipeEnds> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail(Errc::kIo, "pipe: {}", errno_text(errno));
  return PipeEnds{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> result;
  for (const auto& word : words) result.push_back(const_cast<char*>(word.c_str()));
  result.push_back(nullptr);
  return result;
}

/// Reads once from the pipe, and appends the bytes to `messages`. Closes the pipe at its end.
void read_once(UniqueFd& pipe, std::string& messages) {
  std::array<char, 4096> buffer;
  const ssize_t got = ::read(pipe.get(), buffer.data(), buffer.size());
  if (got > 0) messages.append(buffer.data(), static_cast<std::size_t>(got));
  if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) pipe.reset();
}

}  // namespace

Result<PipedProcess> PipedProcess::start(const std::vector<std::string>& argv, const Env& env,
                                         Streams streams) {
  const auto program = find_program(argv[0], env);
  if (!program) return fail(Errc::kNotFound, "{}: no such program in PATH", argv[0]);
  DLRUN_TRY_ASSIGN(auto in, make_pipe());
  DLRUN_TRY_ASSIGN(auto out, make_pipe());
  DLRUN_TRY_ASSIGN(auto err, make_pipe());
  const auto entries = env.entries();
  const auto arguments = pointers(argv);
  const auto environment = pointers(entries);
  const pid_t parent = ::getpid();
  PipedProcess child;
  child.pid_ = ::fork();
  if (child.pid_ < 0) return fail(Errc::kIo, "cannot start {}: {}", argv[0], errno_text(errno));
  if (child.pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    ::setpgid(0, 0);
    sigset_t none;
    sigemptyset(&none);
    ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
    ::signal(SIGPIPE, SIG_DFL);
    const bool has_streams = streams == Streams::kInherited ||
                             (::dup2(in.read.get(), 0) >= 0 && ::dup2(out.write.get(), 1) >= 0);
    if (::getppid() != parent || !has_streams || ::dup2(err.write.get(), 2) < 0) ::_exit(126);
    ::execve(program->c_str(), arguments.data(), environment.data());
    ::_exit(errno == ENOENT ? 127 : 126);
  }
  if (streams == Streams::kPiped) {
    child.in_ = std::move(in.write);
    child.out_ = std::move(out.read);
  }
  child.err_ = std::move(err.read);
  return child;
}

PipedProcess::PipedProcess(PipedProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      in_(std::move(other.in_)),
      out_(std::move(other.out_)),
      err_(std::move(other.err_)) {}

PipedProcess::~PipedProcess() {
  std::string unused;
  if (pid_ > 0) end(true, unused);
}

int PipedProcess::end(bool must_terminate, std::string& messages) {
  in_.reset();
  auto deadline = Clock::now() + (must_terminate ? std::chrono::seconds(0) : kPatience);
  int next = SIGTERM;
  int status = 0;
  pid_t reaped = 0;
  while ((reaped = ::waitpid(pid_, &status, WNOHANG)) == 0 || (reaped < 0 && errno == EINTR)) {
    if (Clock::now() >= deadline) {
      ::kill(pid_, next);
      next = SIGKILL;
      deadline = Clock::now() + kGrace;
    }
    // The child may wait until somebody reads its output.
    std::array<pollfd, 2> outputs{pollfd{out_.get(), POLLIN, 0}, pollfd{err_.get(), POLLIN, 0}};
    constexpr int kPauseMs = 5;
    ::poll(outputs.data(), outputs.size(), kPauseMs);
    std::string unused;
    if (outputs[0].revents != 0) read_once(out_, unused);
    if (outputs[1].revents != 0) read_once(err_, messages);
  }
  pid_ = -1;
  ::fcntl(err_.get(), F_SETFL, O_NONBLOCK);
  for (std::size_t before = messages.size() + 1; err_.is_open() && before != messages.size();) {
    before = messages.size();
    read_once(err_, messages);
  }
  if (reaped < 0) return 0;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace dlrun
