#include "launcher/executors/curl_child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <tuple>
#include <vector>

#include <spawn.h>

namespace dlrun {
namespace {

constexpr int kPollMs = 100;
constexpr std::size_t kKeptOutputBytes = 64U << 10U;

/// Returns a file in memory with this text, open at its start; not open if there is no memory. A
/// pipe would need a process that writes while curl reads.
UniqueFd memory_file(std::string_view text) {
  UniqueFd file(::memfd_create("dlrun-request", MFD_CLOEXEC));
  if (file.is_open() && (!write_all(file.get(), text) || ::lseek(file.get(), 0, SEEK_SET) != 0))
    file.reset();
  return file;
}

/// Starts curl with the descriptors as 0, 1, 2 ..., in a process group of its own: Ctrl-C then
/// reaches only dlrun, which ends curl and reports the interruption. Returns the pid; 0 if curl
/// cannot be started.
pid_t spawn_curl(const std::vector<UniqueFd>& descriptors) {
  posix_spawn_file_actions_t actions;
  if (::posix_spawn_file_actions_init(&actions) != 0) return 0;
  posix_spawnattr_t attributes;
  if (::posix_spawnattr_init(&attributes) != 0) {
    ::posix_spawn_file_actions_destroy(&actions);
    return 0;
  }
  int error = ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  if (error == 0) error = ::posix_spawnattr_setpgroup(&attributes, 0);
  for (std::size_t target = 0; target < descriptors.size() && error == 0; ++target)
    error = ::posix_spawn_file_actions_adddup2(&actions, descriptors[target].get(),
                                               static_cast<int>(target));
  std::array<std::string, 4> words{"curl", "-q", "--config", "-"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  if (error == 0) error = ::posix_spawnp(&pid, "curl", &actions, &attributes, argv.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? pid : 0;
}

}  // namespace

bool CurlChild::Pipe::open() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
  read_end.reset(ends[0]);
  write_end.reset(ends[1]);
  return true;
}

CurlChild::~CurlChild() {
  if (pid_ <= 0) return;
  ::kill(-pid_, SIGKILL);  // a `curl` that is a script may have started processes
  std::ignore = wait();
}

bool CurlChild::start(std::string_view settings, std::string_view body) {
  const UniqueFd settings_file = memory_file(settings), body_file = memory_file(body);
  if (!settings_file.is_open() || !body_file.is_open() || !response_pipe_.open() ||
      !output_pipe_.open() || !errors_pipe_.open())
    return false;
  // Copies each descriptor to a number above those that curl gets. Otherwise a dup2() of
  // spawn_curl() could replace a descriptor that a later dup2() copies.
  std::vector<UniqueFd> descriptors;
  for (const int fd :
       {settings_file.get(), output_pipe_.write_end.get(), errors_pipe_.write_end.get(),
        body_file.get(), response_pipe_.write_end.get()}) {
    descriptors.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, kCurlResponseFd + 1));
    if (!descriptors.back().is_open()) return false;
  }
  pid_ = spawn_curl(descriptors);
  for (Pipe* pipe : {&response_pipe_, &output_pipe_, &errors_pipe_}) pipe->write_end.reset();
  return pid_ > 0;
}

CurlChild::Outcome CurlChild::read_to_end(
    const std::function<bool(char* bytes, std::size_t size)>& take,
    const std::function<bool()>& go_on) {
  UniqueFd& response = response_pipe_.read_end;
  UniqueFd& output = output_pipe_.read_end;
  UniqueFd& errors = errors_pipe_.read_end;
  while (response.is_open() || output.is_open() || errors.is_open()) {
    std::array<pollfd, 3> ready{
        {{response.get(), POLLIN, 0}, {output.get(), POLLIN, 0}, {errors.get(), POLLIN, 0}}};
    if (::poll(ready.data(), ready.size(), kPollMs) < 0) {
      if (errno != EINTR) return Outcome::kStopped;
      for (pollfd& one : ready) one.revents = 0;
    }
    if (!go_on()) return Outcome::kStopped;
    if (ready[0].revents != 0) {
      const ssize_t count = ::read(response.get(), block_.data(), block_.size());
      if (count < 0 && errno != EINTR) return Outcome::kStopped;
      if (count == 0) response.reset();
      if (count > 0 && !take(block_.data(), static_cast<std::size_t>(count)))
        return Outcome::kNotTaken;
    }
    if (ready[1].revents != 0) append_output(output, output_);
    if (ready[2].revents != 0) append_output(errors, errors_);
  }
  return Outcome::kReadToEnd;
}

void CurlChild::append_output(UniqueFd& from, std::string& into) {
  const ssize_t count = ::read(from.get(), block_.data(), block_.size());
  if (count == 0 || (count < 0 && errno != EINTR)) from.reset();
  if (count > 0 && into.size() < kKeptOutputBytes)
    into.append(block_.data(), static_cast<std::size_t>(count));
}

std::optional<int> CurlChild::wait() {
  int state = 0;
  pid_t ended = 0;
  while ((ended = ::waitpid(pid_, &state, 0)) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  return ended > 0 && WIFEXITED(state) ? std::optional<int>(WEXITSTATUS(state)) : std::nullopt;
}

}  // namespace dlrun
