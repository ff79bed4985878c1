#include "runtime/agent/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <unordered_map>

#include "common/files.h"
#include "common/subprocess.h"
#include "common/text.h"

namespace dlrun::agent {
namespace {

std::optional<rlimit> file_limit_before;  // set once by raise_file_limit(), read by children after fork

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (const auto& text : strings) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

/// Where the program is. A name without '/' that PATH does not hold, or holds without the right to execute, fails.
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
  return fail(Errc::kNotFound, "{}: command not found (PATH={})", printable(name), printable(env.get_or("PATH", "")));
}

Error exec_error(const std::string& path, int error) {
  if (error == ENOENT && ::access(path.c_str(), F_OK) == 0) {
    return {Errc::kRefused, fmt::format("{}: its interpreter (first line) or loader does not exist", printable(path))};
  }
  if (error == ENOENT || error == ENOTDIR) {
    return {Errc::kNotFound, fmt::format("{}: command not found", printable(path))};
  }
  return {Errc::kRefused, fmt::format("{}: {}", printable(path), errno_text(error))};
}

void unblock_signals() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
}

/// In the child between fork and exec: only async-signal-safe calls.
[[noreturn]] void exec_child(const Program& program, const char* path, char** argv, char** envp, pid_t parent,
                             int status_fd) {
  bool is_ready = true;
  if (program.dies_with_us) {
    is_ready = ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ::getppid() == parent;  // else it died before the call
  }
  if (program.restores_file_limit && file_limit_before) ::setrlimit(RLIMIT_NOFILE, &*file_limit_before);
  if (program.keep >= 0) is_ready = is_ready && ::fcntl(program.keep, F_SETFD, 0) == 0;
  // dup2 onto itself would leave close-on-exec as it is; 0 to 2 never have it.
  is_ready = is_ready && ::dup2(program.in, 0) >= 0 && ::dup2(program.out, 1) >= 0 && ::dup2(program.err, 2) >= 0;
  unblock_signals();
  if (is_ready) ::execve(path, argv, envp);
  const int error = errno;
  [[maybe_unused]] const auto ignored = ::write(status_fd, &error, sizeof error);
  ::_exit(127);
}

struct ProcessState {
  pid_t pid = 0;
  char state = '?';
  pid_t parent = 0;
  std::uint64_t cpu_ticks = 0;
  std::uint64_t resident_bytes = 0;
};

// Places after the command in /proc/PID/stat (proc(5) counts from 1, and the state is its third).
enum StatField : std::size_t { kState = 0, kParent = 1, kUserTime = 11, kChildrensSystemTime = 14, kResident = 21 };

std::optional<ProcessState> state_of(std::string_view pid) {
  const auto stat = read_file(fmt::format("/proc/{}/stat", pid), 4096);
  if (!stat) return std::nullopt;
  // The command, in parentheses, may hold anything: the fields begin after the last one.
  const auto close = stat->rfind(')');
  if (close == std::string::npos) return std::nullopt;
  const auto fields = split(trim(std::string_view(*stat).substr(close + 1)), ' ');
  if (fields.size() < 2 || fields[0].empty()) return std::nullopt;
  const auto number = [&](std::size_t at) { return at < fields.size() ? parse_int(fields[at]) : std::nullopt; };
  const auto parent = number(kParent);
  if (!parent) return std::nullopt;
  ProcessState process{static_cast<pid_t>(parse_int(pid).value_or(0)), fields[kState].front(),
                       static_cast<pid_t>(*parent)};
  for (std::size_t at = kUserTime; at <= kChildrensSystemTime; ++at) {
    process.cpu_ticks += static_cast<std::uint64_t>(std::max<std::int64_t>(number(at).value_or(0), 0));
  }
  static const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  process.resident_bytes =
      static_cast<std::uint64_t>(std::max<std::int64_t>(number(kResident).value_or(0), 0)) * page_bytes;
  return process;
}

/// Every living process below this one, parents before their children. The tree of `without` is left out.
std::vector<ProcessState> living_descendants(pid_t without) {
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), &::closedir);
  if (!proc) return {};
  std::unordered_map<pid_t, std::vector<ProcessState>> children;
  while (const auto* entry = ::readdir(proc.get())) {
    const auto pid = parse_int(entry->d_name);
    if (!pid || *pid <= 1 || *pid == without) continue;
    const auto state = state_of(entry->d_name);
    if (state && state->state != 'Z' && state->state != 'X') children[state->parent].push_back(*state);
  }
  std::vector<ProcessState> found = children[::getpid()];
  for (std::size_t at = 0; at < found.size(); ++at) {
    const auto below = children.find(found[at].pid);
    if (below != children.end()) found.insert(found.end(), below->second.begin(), below->second.end());
  }
  return found;
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
  const UniqueFd status(ends[0]);
  UniqueFd child_status(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return fail(Errc::kIo, "{}: fork: {}", printable(*path), errno_text(errno));
  if (pid == 0) {
    exec_child(program, path->c_str(), const_cast<char**>(argv.data()), const_cast<char**>(envp.data()), parent,
               child_status.get());
  }
  child_status.reset();
  int error = 0;
  ssize_t got = 0;
  do {
    got = ::read(status.get(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  if (got == sizeof error) return tl::unexpected<Error>(exec_error(*path, error));  // SIGCHLD reaps the child
  return pid;
}

Error become_program(const std::vector<std::string>& argv, const Env& env) {
  const auto path = locate(argv.front(), env);
  if (!path) return path.error();
  const auto entries = env.entries();
  unblock_signals();
  ::execve(path->c_str(), pointers(argv).data(), pointers(entries).data());
  return exec_error(*path, errno);
}

int exit_code_of(const Error& error) {
  if (error.code == Errc::kNotFound) return 127;
  if (error.code == Errc::kRefused) return 126;
  return 70;
}

void adopt_orphans() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

std::vector<pid_t> descendants() {
  std::vector<pid_t> pids;
  for (const ProcessState& process : living_descendants(-1)) pids.push_back(process.pid);
  return pids;
}

TreeUse use_of_descendants(pid_t without) {
  TreeUse use;
  for (const ProcessState& process : living_descendants(without)) {
    use.cpu_ticks += process.cpu_ticks;
    use.resident_bytes += process.resident_bytes;
    ++use.processes;
  }
  return use;
}

bool is_stopped(pid_t pid) {
  constexpr int kDepth = 16;
  for (int depth = 0; depth < kDepth; ++depth) {
    const auto state = state_of(std::to_string(pid));
    if (!state) return false;
    if (state->state == 'T') return true;
    const auto children = read_file(fmt::format("/proc/{0}/task/{0}/children", pid), 4096);
    if (!children) return false;
    const auto only = parse_int(trim(*children));
    if (!only) return false;  // none, or several
    pid = static_cast<pid_t>(*only);
  }
  return false;
}

void raise_file_limit() {
  rlimit limit{};
  if (file_limit_before || ::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  file_limit_before = limit;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace dlrun::agent
