#pragma once
// Finds out, from /proc, where each thread of a hung process waits.

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace dlrun::agent {

struct ThreadFacts {
  pid_t id = 0;
  std::string name{};
  /// The kernel's letter: R runs, S sleeps, D waits for a device, T is suspended, Z is dead.
  char state = '?';
  /// The kernel function in which the thread waits, such as futex_wait_queue; empty if the kernel
  /// does not report it.
  std::string waits_in{};
  /// Number and arguments of the system call; empty if this process may not read them.
  std::string system_call{};
  std::string kernel_stack{};  ///< lines of the kernel stack; empty unless this process is root
};

struct ProcessFacts {
  pid_t pid = 0;
  std::string command{};  ///< argv, with spaces between
  std::uint64_t resident_bytes = 0;
  std::vector<ThreadFacts> threads{};  ///< the main thread first; at most kThreadsLimit of them
  std::size_t thread_count = 0;        ///< number of all threads, even if `threads` has fewer
};
inline constexpr std::size_t kThreadsLimit = 64;

/// Reads a process. A process that is gone has no threads. proc: /proc, or a copy of it for tests.
[[nodiscard]] ProcessFacts read_process(pid_t pid, const std::filesystem::path& proc = "/proc");

/// Returns text such as "sleeps in futex_wait_queue". The autopsy also shows it in place of a stack
/// that cannot be read.
[[nodiscard]] std::string describe(const ThreadFacts& thread);

/// Returns the process as text for the user. Every line ends in a newline.
[[nodiscard]] std::string to_text(const ProcessFacts& process);

}  // namespace dlrun::agent
