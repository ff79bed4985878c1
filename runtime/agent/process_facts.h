#pragma once
// Reads from /proc where each thread of a process that hangs waits.

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
  char state = '?';  ///< the kernel's letter: R runs, S sleeps, D waits for a device, T is stopped,
                     ///< Z is dead
  std::string waits_in{};      ///< the kernel function, such as futex_wait_queue; empty where the
                               ///< kernel does not say
  std::string system_call{};   ///< its number and arguments; empty where that is not ours to know
  std::string kernel_stack{};  ///< lines; empty but for root
};

struct ProcessFacts {
  pid_t pid = 0;
  std::string command{};  ///< argv, with spaces between
  std::uint64_t resident_bytes = 0;
  std::vector<ThreadFacts> threads{};  ///< the main thread first; at most kThreadsLimit of them
  std::size_t thread_count = 0;
};
inline constexpr std::size_t kThreadsLimit = 64;

/// Reads what can be read now; a process that is gone has no threads. proc: /proc, or a copy of it
/// for tests.
[[nodiscard]] ProcessFacts read_process(pid_t pid, const std::filesystem::path& proc = "/proc");

/// Returns "sleeps in futex_wait_queue" or the like: the frame of a thread whose stack cannot be
/// had.
[[nodiscard]] std::string describe(const ThreadFacts& thread);

/// Returns the process as text for people, every line ended.
[[nodiscard]] std::string to_text(const ProcessFacts& process);

}  // namespace dlrun::agent
