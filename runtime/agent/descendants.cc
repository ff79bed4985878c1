#include "runtime/agent/descendants.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "common/files.h"
#include "common/text.h"

namespace dlrun::agent {
namespace {

struct ProcessState {
  pid_t pid = 0;
  char state = '?';
  pid_t parent = 0;
  std::int64_t flags = 0;  ///< the kernel's flags PF_*
  std::uint64_t cpu_ticks = 0;
  std::uint64_t resident_bytes = 0;

  [[nodiscard]] bool is_alive() const { return state != 'Z' && state != 'X'; }
};

// Indices of fields after the command in /proc/PID/stat. The state, index 0, is field 3 in proc(5).
enum StatField : std::size_t {
  kState = 0,
  kParent = 1,
  kFlags = 6,
  kUserTime = 11,
  kChildrensSystemTime = 14,
  kResident = 21
};

constexpr std::size_t kProcFileLimitBytes = 1U << 20U;

/// Reads a small file in /proc. Returns nullopt if its process is gone.
std::optional<std::string> read_proc(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return std::nullopt;
  std::string text;
  std::array<char, 4096> buffer;
  while (text.size() < kProcFileLimitBytes) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return text;
}

std::optional<ProcessState> state_of(pid_t pid) {
  const auto stat = read_proc(fmt::format("/proc/{}/stat", pid));
  if (!stat) return std::nullopt;
  // The command, in parentheses, may contain any character. The fields begin after the last ')'.
  const auto close = stat->rfind(')');
  if (close == std::string::npos) return std::nullopt;
  const auto fields = split(trim(std::string_view(*stat).substr(close + 1)), ' ');
  if (fields.size() < 2 || fields[0].empty()) return std::nullopt;
  const auto number = [&](std::size_t at) {
    return at < fields.size() ? parse_int(fields[at]) : std::nullopt;
  };
  const auto parent = number(kParent);
  if (!parent) return std::nullopt;
  ProcessState process{pid, fields[kState].front(), static_cast<pid_t>(*parent),
                       number(kFlags).value_or(0)};
  for (std::size_t at = kUserTime; at <= kChildrensSystemTime; ++at) {
    process.cpu_ticks +=
        static_cast<std::uint64_t>(std::max<std::int64_t>(number(at).value_or(0), 0));
  }
  static const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  process.resident_bytes =
      static_cast<std::uint64_t>(std::max<std::int64_t>(number(kResident).value_or(0), 0)) *
      page_bytes;
  return process;
}

/// Returns the numeric names of a /proc folder's entries: process or thread ids.
std::vector<pid_t> numbers_in(const std::string& folder) {
  std::vector<pid_t> numbers;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), &::closedir);
  if (!entries) return numbers;
  while (const auto* entry = ::readdir(entries.get())) {
    if (const auto number = parse_int(entry->d_name); number && *number > 0) {
      numbers.push_back(static_cast<pid_t>(*number));
    }
  }
  return numbers;
}

/// Returns the children of all threads of a process, including zombies.
std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> children;
  for (const pid_t thread : numbers_in(fmt::format("/proc/{}/task", pid))) {
    const auto text = read_proc(fmt::format("/proc/{}/task/{}/children", pid, thread));
    if (!text) continue;
    for (const auto word : split(*text, ' ')) {
      if (const auto child = parse_int(word)) children.push_back(static_cast<pid_t>(*child));
    }
  }
  return children;
}

bool kernel_lists_children() {
  static const bool lists =
      ::access(fmt::format("/proc/self/task/{}/children", ::getpid()).c_str(), R_OK) == 0;
  return lists;
}

/// Finds the living descendants by walking down from this process.
std::vector<ProcessState> walk_down(pid_t excluded) {
  std::vector<ProcessState> living;
  std::vector<pid_t> parents{::getpid()};
  std::unordered_set<pid_t> seen{::getpid(), excluded};
  for (std::size_t at = 0; at < parents.size(); ++at) {
    for (const pid_t child : children_of(parents[at])) {
      if (!seen.insert(child).second) continue;
      const auto state = state_of(child);
      if (!state) continue;
      parents.push_back(child);  // even a zombie: its other threads may live and have children
      if (state->is_alive()) living.push_back(*state);
    }
  }
  return living;
}

/// Finds the living descendants without the kernel's lists of children, by looking at every process
/// of the machine.
std::vector<ProcessState> scan_all(pid_t excluded) {
  std::unordered_map<pid_t, std::vector<ProcessState>> children;
  for (const pid_t pid : numbers_in("/proc")) {
    if (pid <= 1 || pid == excluded) continue;
    const auto state = state_of(pid);
    if (state && state->is_alive()) children[state->parent].push_back(*state);
  }
  std::vector<ProcessState> found = children[::getpid()];
  for (std::size_t at = 0; at < found.size(); ++at) {
    const auto below = children.find(found[at].pid);
    if (below != children.end())
      found.insert(found.end(), below->second.begin(), below->second.end());
  }
  return found;
}

std::vector<ProcessState> living_descendants(pid_t excluded) {
  if (!has_children()) return {};
  return kernel_lists_children() ? walk_down(excluded) : scan_all(excluded);
}

}  // namespace

void adopt_orphans() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

bool has_children() {
  siginfo_t info{};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

std::vector<pid_t> descendants_without(pid_t excluded) {
  std::vector<pid_t> pids;
  for (const ProcessState& process : living_descendants(excluded)) pids.push_back(process.pid);
  return pids;
}

void end_descendants() {
  constexpr std::chrono::seconds kLimit{2};
  const auto until = std::chrono::steady_clock::now() + kLimit;
  // The children of a killed process become children of this process, so several rounds are needed.
  while (has_children() && std::chrono::steady_clock::now() < until) {
    for (const pid_t pid : descendants()) ::kill(pid, SIGKILL);
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (has_children()) ::poll(nullptr, 0, 2);
  }
}

ProcessTreeUse use_of_descendants_without(pid_t excluded) {
  ProcessTreeUse use;
  for (const ProcessState& process : living_descendants(excluded)) {
    use.cpu_ticks += process.cpu_ticks;
    use.resident_bytes += process.resident_bytes;
    ++use.process_count;
  }
  return use;
}

bool is_exiting(pid_t pid) {
  constexpr std::int64_t kExiting = 0x4;  // PF_EXITING in the kernel's sched.h
  const auto state = state_of(pid);
  return state && (state->flags & kExiting) != 0;
}

bool is_suspended(pid_t pid) {
  constexpr int kDepth = 16;
  for (int depth = 0; depth < kDepth; ++depth) {
    const auto state = state_of(pid);
    if (!state) return false;
    if (state->state == 'T') return true;
    const auto children = read_proc(fmt::format("/proc/{0}/task/{0}/children", pid));
    if (!children) return false;
    const auto only_child = parse_int(trim(*children));
    if (!only_child) return false;  // none, or several
    pid = static_cast<pid_t>(*only_child);
  }
  return false;
}

}  // namespace dlrun::agent
