// After the fork, the parent reads the connection's input (frames for the command, and the end of
// the input), and the child runs the command.

#include "launcher/remote/host_side.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "common/subprocess.h"
#include "common/text.h"
#include "launcher/remote/code_state.h"
#include "launcher/remote/mirror_lock.h"
#include "launcher/submit/held_token.h"

namespace dlrun {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLongestWord = 16U << 20U;  ///< bytes of a request
constexpr std::chrono::seconds kGroupGrace{10};   ///< from SIGTERM to SIGKILL
constexpr std::size_t kMostUnread = 1U << 20U;    ///< bytes that wait for the command to read them

/// Reads the first line of the input, the word of the request. Reads byte by byte, because frames
/// follow the line.
Result<std::string> read_request_word(int fd) {
  std::string word;
  for (char c = 0; word.size() < kLongestWord;) {
    const ssize_t got = ::read(fd, &c, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return fail(Errc::kInvalid, "--remote: the request is incomplete");
    if (c == '\n') return word;
    word += c;
  }
  return fail(Errc::kInvalid, "--remote: the request is longer than {} bytes", kLongestWord);
}

/// Returns the folder where the command starts: a folder in the mirror, or the home directory if
/// that folder does not exist. Returns / if there is no home directory either. Fails as
/// expand_root() does.
Result<std::filesystem::path> folder_of_request(const RemoteRequest& request, const Env& env) {
  std::error_code error;
  if (!request.mirror.empty()) {
    DLRUN_TRY_ASSIGN(const auto root, expand_root(request.root, env));
    const auto folder = root / request.mirror / request.subfolder;
    if (std::filesystem::is_directory(folder, error)) return folder;
  }
  const std::filesystem::path home = env.get_or("HOME", "/");
  return std::filesystem::is_directory(home, error) ? home : std::filesystem::path("/");
}

/// Waits for the end of the command, and meanwhile passes the frames' input and signals on to it.
class Waiter {
 public:
  Waiter(pid_t child, const HostStreams& streams, UniqueFd to_child, FrameReader frames)
      : child_(child), in_(streams.in), to_child_(std::move(to_child)), frames_(std::move(frames)) {
    pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  }

  /// Waits for the end of the command and returns its exit code.
  int wait() {
    handle_frames();
    for (;;) {
      int status = 0;
      if (::waitpid(child_, &status, WNOHANG) == child_)
        return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      if (is_ending_ && Clock::now() >= kill_at_) ::kill(-child_, SIGKILL);
      // Without pidfd_open (Linux before 5.3), waitpid() is called every 20 ms.
      const int timeout_ms = is_ending_ ? 100 : pidfd_.is_open() ? 60'000 : 20;
      // POLLRDHUP notices the end of the connection even if the command does not read its input.
      const short wanted = to_write_.size() < kMostUnread ? POLLIN : POLLRDHUP;
      std::array<pollfd, 3> waits{pollfd{is_ending_ ? -1 : in_, wanted, 0},
                                  pollfd{to_write_.empty() ? -1 : to_child_.get(), POLLOUT, 0},
                                  pollfd{pidfd_.get(), POLLIN, 0}};
      if (::poll(waits.data(), waits.size(), timeout_ms) <= 0) continue;
      if (waits[1].revents != 0) write_some();
      if ((waits[0].revents & POLLIN) != 0) {
        read_some();
      } else if (waits[0].revents != 0) {
        end_command();
      }
    }
  }

 private:
  void read_some() {
    std::array<char, 1U << 15U> buffer{};
    const ssize_t got = ::read(in_, buffer.data(), buffer.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) return end_command();
    frames_.add({buffer.data(), static_cast<std::size_t>(got)});
    handle_frames();
  }

  /// Acts on the complete frames that have come.
  void handle_frames() {
    for (;;) {
      const auto frame = frames_.next();
      if (!frame) return end_command();
      if (!*frame) return;
      if ((*frame)->kind == RemoteFrame::Kind::kInput && to_child_.is_open()) {
        to_write_ += (*frame)->bytes;
      } else if ((*frame)->kind == RemoteFrame::Kind::kInputEnd) {
        input_ended_ = true;
        if (to_write_.empty()) to_child_.reset();
      } else if ((*frame)->kind == RemoteFrame::Kind::kSignal) {
        const auto signal = parse_int((*frame)->bytes);
        const bool is_known =
            signal && (*signal == SIGINT || *signal == SIGTERM || *signal == SIGHUP);
        if (is_known) ::kill(-child_, static_cast<int>(*signal));
      }
    }
  }

  void write_some() {
    const ssize_t written = ::write(to_child_.get(), to_write_.data(), to_write_.size());
    if (written > 0) to_write_.erase(0, static_cast<std::size_t>(written));
    const bool is_closed = written < 0 && errno != EAGAIN && errno != EINTR;
    if (is_closed) to_write_.clear();
    if (is_closed || (input_ended_ && to_write_.empty())) to_child_.reset();
  }

  void end_command() {
    if (is_ending_) return;
    is_ending_ = true;
    kill_at_ = Clock::now() + kGroupGrace;
    to_write_.clear();
    to_child_.reset();
    ::kill(-child_, SIGTERM);
  }

  pid_t child_;
  int in_;
  UniqueFd to_child_, pidfd_;
  FrameReader frames_;
  std::string to_write_;  ///< input that the command has not read yet
  bool input_ended_ = false, is_ending_ = false;
  Clock::time_point kill_at_;
};

/// Replaces this process by the program of the request. Returns only if that fails.
Result<RequestOutcome> exec_program(const RemoteRequest& request, const Env& env) {
  if (request.argv.empty()) return fail(Errc::kInvalid, "--remote: no program is named");
  const auto program = find_program(request.argv[0], env);
  if (!program) {
    return fail(Errc::kNotFound, "{}: no such program in PATH on the host; install it on the host",
                request.argv[0]);
  }
  std::vector<char*> argv;
  for (const std::string& word : request.argv) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const auto entries = env.entries();
  std::vector<char*> environment;
  for (const std::string& entry : entries) environment.push_back(const_cast<char*>(entry.c_str()));
  environment.push_back(nullptr);
  ::execve(program->c_str(), argv.data(), environment.data());
  return fail(Errc::kIo, "{}: {}", *program, errno_text(errno));
}

/// Forks. Returns immediately in the child, which has the command's standard input and a process
/// group of its own. Returns in the parent after the end of the child.
Result<RequestOutcome> fork_for_command(RemoteRequest request, const Env& env,
                                        const HostStreams& streams, FrameReader frames) {
  DLRUN_TRY_ASSIGN(auto folder, folder_of_request(request, env));
  std::array<int, 2> input{-1, -1};
  if (request.has_input && ::pipe2(input.data(), O_CLOEXEC) != 0)
    return fail(Errc::kIo, "cannot make a pipe: {}", errno_text(errno));
  UniqueFd read_end(input[0]), write_end(input[1]);
  ::signal(SIGPIPE, SIG_IGN);
  const pid_t child = ::fork();
  if (child < 0) return fail(Errc::kIo, "cannot start the command: fork: {}", errno_text(errno));
  if (child > 0) {
    ::setpgid(child, child);
    read_end.reset();
    if (write_end.is_open()) ::fcntl(write_end.get(), F_SETFL, O_NONBLOCK);
    RequestOutcome outcome;
    outcome.exit_code = Waiter(child, streams, std::move(write_end), std::move(frames)).wait();
    return outcome;
  }
  ::setpgid(0, 0);
  ::signal(SIGPIPE, SIG_DFL);
  write_end.reset();
  if (!read_end.is_open()) read_end.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ::dup2(read_end.get(), streams.in);
  return RequestOutcome{std::nullopt, std::move(request), std::move(folder), {}};
}

/// Writes the state of the code's repository beside the mirror, for the run's provenance. Returns
/// the file, or an empty path if the state is unknown.
Result<std::filesystem::path> write_git_state(const std::filesystem::path& root,
                                              const std::string& mirror,
                                              const std::string& git_state) {
  if (git_state.empty()) return std::filesystem::path();
  auto file = root / ("." + mirror + ".git-state");
  DLRUN_TRY(write_file_atomic(file, git_state));
  return file;
}

/// Locks the mirror and answers. Then waits for a second request, forks, and has the child run the
/// command of the second request. The child keeps the lock if this command may queue a job. If the
/// input ends before the second request, returns the exit code 0 without a fork.
Result<RequestOutcome> serve_mirror(const RemoteRequest& request, const Env& env,
                                    const HostStreams& streams) {
  DLRUN_TRY_ASSIGN(const auto root, expand_root(request.root, env));
  DLRUN_TRY_ASSIGN(auto lock, MirrorLock::take(root, request.mirror));
  const std::string answer =
      mirror_answer(root / request.mirror, request.paths,
                    is_mirror_current(root, request.mirror, request.code_state));
  DLRUN_TRY(write_all(streams.out, answer));
  FrameReader frames;
  for (;;) {
    DLRUN_TRY_ASSIGN(const auto frame, frames.next());
    if (frame && frame->kind == RemoteFrame::Kind::kGo) {
      DLRUN_TRY_ASSIGN(auto next, parse_request(frame->bytes));
      DLRUN_TRY_ASSIGN(auto git_state_file, write_git_state(root, request.mirror, next.git_state));
      // An error is ignored: without the list, the next copy only takes longer.
      if (!next.file_list.empty())
        static_cast<void>(write_file_list(root, request.mirror, std::exchange(next.file_list, {})));
      // A command without a token queues no job, so the code may change while it runs.
      if (next.token.empty()) lock.release();
      auto outcome = fork_for_command(std::move(next), env, streams, std::move(frames));
      if (outcome && !outcome->exit_code) {
        lock.keep_until_exit();
        outcome->git_state_file = std::move(git_state_file);
      }
      return outcome;
    }
    std::array<char, 1U << 15U> buffer{};
    const ssize_t got = ::read(streams.in, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return RequestOutcome{0, {}, {}, {}};
    frames.add({buffer.data(), static_cast<std::size_t>(got)});
  }
}

}  // namespace

Result<std::filesystem::path> expand_root(std::string_view root, const Env& env) {
  std::string text;
  std::string_view rest = root;
  if (rest == "~" || rest.starts_with("~/")) {
    text = env.get_or("HOME", "");
    rest.remove_prefix(1);
    if (text.empty()) return fail(Errc::kInvalid, "root: HOME is not set on this host");
  }
  const auto is_in_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  while (!rest.empty()) {
    if (rest[0] != '$') {
      text += rest[0];
      rest.remove_prefix(1);
      continue;
    }
    const bool has_brace = rest.size() > 1 && rest[1] == '{';
    std::size_t begin = has_brace ? 2 : 1, end = begin;
    while (end < rest.size() && is_in_name(rest[end])) ++end;
    const std::string_view name = rest.substr(begin, end - begin);
    const bool has_closing_brace = end < rest.size() && rest[end] == '}';
    if (name.empty() || (has_brace && !has_closing_brace)) {
      return fail(Errc::kInvalid, "root: '{}': expected $NAME or ${{NAME}} for each '$'",
                  printable(root));
    }
    const std::string value = env.get_or(name, "");
    if (value.empty()) {
      return fail(
          Errc::kInvalid,
          "root: '{}': the variable {} is not set on this host, or is empty. If a login shell "
          "sets it, write `login_shell: true` into the host's file",
          printable(root), printable(name));
    }
    text += value;
    rest.remove_prefix(end + (has_brace ? 1 : 0));
  }
  std::filesystem::path path(text);
  if (!path.is_absolute())
    return fail(Errc::kInvalid, "root: '{}' is no absolute path on this host: '{}'",
                printable(root), printable(text));
  return path.lexically_normal();
}

Result<RequestOutcome> serve_request(std::string_view word, const Env& env,
                                     const HostStreams& streams) {
  std::string line;
  if (word == "-") {
    DLRUN_TRY_ASSIGN(line, read_request_word(streams.in));
    word = line;
  }
  DLRUN_TRY_ASSIGN(auto request, parse_request(word));
  if (request.mode == RemoteMode::kTerminal) {
    DLRUN_TRY_ASSIGN(auto folder, folder_of_request(request, env));
    return RequestOutcome{std::nullopt, std::move(request), std::move(folder), {}};
  }
  const std::string marker = marker_of(request.nonce, DLRUN_VERSION);
  DLRUN_TRY(write_all(streams.err, marker));
  DLRUN_TRY(write_all(streams.out, marker));
  if (request.mode == RemoteMode::kPipe) return exec_program(request, env);
  if (request.mode == RemoteMode::kMirror) return serve_mirror(request, env, streams);
  return fork_for_command(std::move(request), env, streams, {});
}

void apply_request(const RequestOutcome& outcome, Context& context) {
  if (::chdir(outcome.folder.c_str()) == 0) context.current_dir = outcome.folder;
  Env& env = context.env;
  env.set("PWD", context.current_dir.string());
  env.unset("DLRUN_HOST");
  env.unset(kTokenVariable);
  if (!outcome.request.token.empty()) env.set(kTokenVariable, outcome.request.token);
  env.unset(kGitStateVariable);
  if (!outcome.git_state_file.empty()) env.set(kGitStateVariable, outcome.git_state_file.string());
  context.argv = outcome.request.argv;
  context.argv.insert(context.argv.begin(), "dlrun");
}

}  // namespace dlrun
